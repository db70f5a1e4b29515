//! The tables of what is passed on in each wire format. The names come from the documentation of the APIs and from the
//! requests of the programs. Any other name is refused, because nobody knows what it would do at the provider.

use crate::config::Api;

/// The rule for the value of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// Any value, which is searched for anything that reaches beyond the model.
    Content,
    /// Any value. It is data to the provider, whatever its entries are called.
    Data,
    /// A list of tools that the program runs itself.
    Tools,
    /// One of these tools.
    Tool,
    /// One of these words, `false` or `null`. Any other value stores something or changes the price.
    Only(&'static [&'static str]),
}

use Rule::{Content, Data, Only, Tool, Tools};

/// Rule for an option that must stay off.
const OFF: Rule = Only(&[]);
/// Rule for the usual price.
const USUAL_TIER: Rule = Only(&["auto", "default", "standard_only", "standard"]);

/// The table of one wire format.
pub(super) struct WireTable {
    /// Allowed entries of the outermost object.
    pub(super) top: &'static [(&'static str, Rule)],
    /// `true` if names count as equal in any spelling: Google accepts `cachedContent` and `cached_content`.
    pub(super) is_loose: bool,
    /// Entries within contents that are data or tools, by their exact names.
    pub(super) within: &'static [(&'static str, Rule)],
    /// Folded names of entries within contents that reach beyond the model: to stored data or to other places.
    pub(super) out: &'static [&'static [&'static str]],
    /// Types of contents that reach beyond the model.
    pub(super) out_types: &'static [&'static str],
    /// Types of tools that the program runs itself.
    pub(super) tools: &'static [&'static str],
    /// Types of such tools that are followed by the date of a version: `bash_20250124`.
    pub(super) dated_tools: &'static [&'static str],
    /// The only allowed entries of a tool, folded, for formats in which the type of a tool does not say everything.
    pub(super) tool_entries: Option<&'static [&'static str]>,
}

const ANTHROPIC: WireTable = WireTable {
    top: &[
        ("model", Data),
        ("messages", Content),
        ("system", Content),
        ("max_tokens", Data),
        ("metadata", Data),
        ("stop_sequences", Data),
        ("stream", Data),
        ("temperature", Data),
        ("top_p", Data),
        ("top_k", Data),
        ("thinking", Data),
        ("tools", Tools),
        ("tool_choice", Data),
        ("output_config", Data),
        ("output_format", Data),
        ("context_management", Data),
        ("cache_control", Data),
        ("diagnostics", Data),
        // Both of these set the price.
        ("service_tier", USUAL_TIER),
        ("speed", USUAL_TIER),
    ],
    is_loose: false,
    within: &[
        // Arguments and schemas of the program's tools are data, whatever names occur in them.
        ("input", Data),
        ("input_schema", Data),
        ("input_examples", Data),
        ("tools", Tools),
        ("definition", Tool),
    ],
    out: &[&[
        // These names are folded: `file_id` and `fileId` are the same.
        "fileid",
        "fileids",
        "container",
        "containerid",
        "mcpservers",
        "mcpservername",
        "authorizationtoken",
    ]],
    out_types: &["url", "file", "container_upload", "server_tool_use", "mcp_tool_use", "mcp_toolset"],
    tools: &["custom"],
    dated_tools: &["bash", "text_editor", "computer", "memory"],
    tool_entries: None,
};

/// Names that mean the same in both of OpenAI's APIs.
const OPENAI_FORBIDDEN: &[&str] = &[
    "fileid",
    "fileids",
    "vectorstoreid",
    "vectorstoreids",
    "container",
    "containerid",
    "previousresponseid",
    "conversation",
    "serverurl",
    "connectorid",
];

const RESPONSES: WireTable = WireTable {
    top: &[
        ("model", Data),
        ("input", Content),
        ("instructions", Content),
        ("tools", Tools),
        ("tool_choice", Content),
        ("parallel_tool_calls", Data),
        ("max_tool_calls", Data),
        ("reasoning", Data),
        ("text", Data),
        ("include", Data),
        ("stream", Data),
        ("stream_options", Data),
        ("max_output_tokens", Data),
        ("temperature", Data),
        ("top_p", Data),
        ("top_logprobs", Data),
        ("truncation", Data),
        ("context_management", Data),
        ("metadata", Data),
        ("client_metadata", Data),
        ("user", Data),
        ("safety_identifier", Data),
        ("prompt_cache_key", Data),
        ("prompt_cache_retention", Data),
        ("prompt_cache_options", Data),
        // With these, something would stay or run at the provider after the turn.
        ("store", OFF),
        ("background", OFF),
        ("service_tier", USUAL_TIER),
    ],
    is_loose: false,
    // A call of a program's own tool carries the arguments from the model, and an answer carries its sources. Both are
    // data.
    within: &[
        ("arguments", Data),
        ("annotations", Data),
        ("action", Data),
        ("operation", Data),
        ("logprobs", Data),
        ("tools", Tools),
    ],
    out: &[OPENAI_FORBIDDEN],
    out_types: &[
        "item_reference",
        "image_generation_call",
        "mcp_call",
        "mcp_approval_response",
        "mcp_list_tools",
        "file_search_call",
        "code_interpreter_call",
        "web_search_call",
        "computer_call",
    ],
    tools: &["function", "custom", "local_shell", "apply_patch", "namespace"],
    dated_tools: &[],
    tool_entries: None,
};

const COMPLETIONS: WireTable = WireTable {
    top: &[
        ("model", Data),
        ("messages", Content),
        ("tools", Tools),
        ("tool_choice", Content),
        ("parallel_tool_calls", Data),
        ("functions", Data),
        ("function_call", Data),
        ("max_tokens", Data),
        ("max_completion_tokens", Data),
        ("n", Data),
        ("temperature", Data),
        ("top_p", Data),
        ("top_k", Data),
        ("min_p", Data),
        ("top_a", Data),
        ("frequency_penalty", Data),
        ("presence_penalty", Data),
        ("repetition_penalty", Data),
        ("logit_bias", Data),
        ("logprobs", Data),
        ("top_logprobs", Data),
        ("stop", Data),
        ("seed", Data),
        ("random_seed", Data),
        ("stream", Data),
        ("stream_options", Data),
        ("response_format", Data),
        ("prediction", Data),
        ("reasoning", Data),
        ("reasoning_effort", Data),
        ("reasoning_format", Data),
        ("reasoning_split", Data),
        ("include_reasoning", Data),
        ("thinking", Data),
        ("thinking_budget", Data),
        ("enable_thinking", Data),
        ("chat_template_kwargs", Data),
        ("tool_stream", Data),
        ("verbosity", Data),
        ("usage", Data),
        ("metadata", Data),
        ("user", Data),
        ("safety_identifier", Data),
        ("safe_prompt", Data),
        ("prompt_mode", Data),
        ("prompt_cache_key", Data),
        ("prompt_cache_retention", Data),
        ("prompt_cache_options", Data),
        ("store", OFF),
        ("service_tier", USUAL_TIER),
    ],
    is_loose: false,
    within: &[("arguments", Data), ("annotations", Data), ("logprobs", Data), ("tools", Tools)],
    // An earlier spoken answer is stored at the provider, and `audio` refers to it.
    out: &[OPENAI_FORBIDDEN, &["audio"]],
    out_types: &["item_reference", "mcp", "web_search"],
    tools: &["function", "custom"],
    dated_tools: &[],
    // Routers also act on entries beside the type.
    tool_entries: Some(&[
        "type",
        "function",
        "custom",
        "name",
        "description",
        "parameters",
        "strict",
        "cachecontrol",
    ]),
};

const GOOGLE: WireTable = WireTable {
    top: &[
        ("model", Data),
        ("contents", Content),
        ("systemInstruction", Content),
        ("tools", Tools),
        ("toolConfig", Data),
        ("safetySettings", Data),
        // This is content and not data, because it can choose another model: see `out`.
        ("generationConfig", Content),
        ("labels", Data),
        ("store", OFF),
        ("serviceTier", USUAL_TIER),
    ],
    is_loose: true,
    within: &[
        ("args", Data),
        ("response", Data),
        ("responseSchema", Data),
        ("response_schema", Data),
        ("responseJsonSchema", Data),
        ("response_json_schema", Data),
        ("tools", Tools),
    ],
    // The generation settings can choose another model.
    out: &[&[
        "filedata",
        "fileuri",
        "fileid",
        "cachedcontent",
        "routingconfig",
        "modelconfig",
        "modelselectionconfig",
    ]],
    out_types: &[],
    tools: &[],
    dated_tools: &[],
    tool_entries: Some(&["functiondeclarations", "computeruse"]),
};

/// Returns the table of a wire format.
pub(super) const fn of(api: Api) -> &'static WireTable {
    match api {
        Api::AnthropicMessages => &ANTHROPIC,
        Api::GoogleGenerativeAi => &GOOGLE,
        Api::OpenAiResponses | Api::OpenAiCodexResponses => &RESPONSES,
        _ => &COMPLETIONS,
    }
}
