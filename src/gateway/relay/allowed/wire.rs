//! What of each wire format is passed on. The names are those of the APIs' own documentation and of what the programs
//! send; what is not here is refused, because nobody knows what it would do at the provider.

use crate::config::Api;

/// What may stand in the place of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// Anything, looked through for what leads out.
    Content,
    /// Anything: it is data to the provider, whatever its entries are called.
    Data,
    /// A list of tools that the program runs itself.
    Tools,
    /// One of them.
    Tool,
    /// One of these words, `false` or nothing: whatever else it could be stores something or changes the price.
    Only(&'static [&'static str]),
}

use Rule::{Content, Data, Only, Tool, Tools};

/// Never.
const OFF: Rule = Only(&[]);
/// The usual price.
const TIER: Rule = Only(&["auto", "default", "standard_only", "standard"]);

/// A wire format.
pub(super) struct Wire {
    /// Entries of the outermost object.
    pub(super) top: &'static [(&'static str, Rule)],
    /// Whether names count as the same however they are spelt: Google takes `cachedContent` and `cached_content`.
    pub(super) is_loose: bool,
    /// Entries within contents that are data, or are tools, by their exact names.
    pub(super) within: &'static [(&'static str, Rule)],
    /// Entries within contents that lead out, folded, in several lists: what was stored before, what is elsewhere.
    pub(super) out: &'static [&'static [&'static str]],
    /// Types of contents that lead out.
    pub(super) out_types: &'static [&'static str],
    /// Types of tools that the program runs itself.
    pub(super) tools: &'static [&'static str],
    /// The same, with the day of a version after it: `bash_20250124`.
    pub(super) dated_tools: &'static [&'static str],
    /// The only entries of a tool, folded, where its type does not say everything.
    pub(super) tool_entries: Option<&'static [&'static str]>,
}

const ANTHROPIC: Wire = Wire {
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
        ("service_tier", TIER),
        ("speed", TIER),
    ],
    is_loose: false,
    within: &[
        ("input", Data),
        ("input_schema", Data),
        ("input_examples", Data),
        ("tools", Tools),
        ("definition", Tool),
    ],
    out: &[&[
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

/// Names that OpenAI's two APIs give to the same.
const OPENAI_OUT: &[&str] = &[
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

const RESPONSES: Wire = Wire {
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
        ("store", OFF),
        ("background", OFF),
        ("service_tier", TIER),
    ],
    is_loose: false,
    // A call of a program's own tool is told with what the model gave it, and an answer with where that is from.
    within: &[
        ("arguments", Data),
        ("annotations", Data),
        ("action", Data),
        ("operation", Data),
        ("logprobs", Data),
        ("tools", Tools),
    ],
    out: &[OPENAI_OUT],
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

const COMPLETIONS: Wire = Wire {
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
        ("service_tier", TIER),
    ],
    is_loose: false,
    within: &[("arguments", Data), ("annotations", Data), ("logprobs", Data), ("tools", Tools)],
    // An answer that was spoken before is kept at the provider.
    out: &[OPENAI_OUT, &["audio"]],
    out_types: &["item_reference", "mcp", "web_search"],
    tools: &["function", "custom"],
    dated_tools: &[],
    // Routers run what they find beside the type.
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

const GOOGLE: Wire = Wire {
    top: &[
        ("model", Data),
        ("contents", Content),
        ("systemInstruction", Content),
        ("tools", Tools),
        ("toolConfig", Data),
        ("safetySettings", Data),
        ("generationConfig", Content),
        ("labels", Data),
        ("store", OFF),
        ("serviceTier", TIER),
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
    // Another model may be chosen by the configuration of an answer.
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

/// The table of a wire format that is passed on.
pub(super) const fn of(api: Api) -> &'static Wire {
    match api {
        Api::AnthropicMessages => &ANTHROPIC,
        Api::GoogleGenerativeAi => &GOOGLE,
        Api::OpenAiResponses | Api::OpenAiCodexResponses => &RESPONSES,
        _ => &COMPLETIONS,
    }
}
