use proptest::prelude::*;

use super::*;

const TEAM: [&str; 8] = ["bob", "pm", "pm-other", "a_b", "x", "0day", "bob-", "types"];

/// Returns the mentioned agents as text, with `all` at the end.
fn mentioned(text: &str) -> String {
    let team: Vec<AgentId> = TEAM.iter().map(|id| id.parse().unwrap()).collect();
    let Mentions { agents, all } = mentions(text, team.iter());
    let mut names: Vec<String> = agents.into_iter().map(String::from).collect();
    names.extend(all.then(|| "all".to_owned()));
    names.join(" ")
}

#[track_caller]
fn check(cases: &[(&str, &str)]) {
    for (text, names) in cases {
        assert_eq!(mentioned(text), *names, "{text:?}");
    }
}

#[test]
fn only_the_longest_matching_name_is_mentioned() {
    check(&[
        ("@pm look", "pm"),
        ("@pm-other look", "pm-other"),
        ("@pm-others look", ""),
        ("@pmo", ""),
        ("@pm_", "pm"),
        ("@a_b @A_B", "a_b"),
        ("@0day", "0day"),
        ("@nobody", ""),
        ("@pmx @pm-othe @allx @all_b", ""),
        ("(@bob), @pm. @a_b_", "bob pm a_b"),
        ("@", ""),
        ("@ pm", ""),
        ("@-pm", ""),
    ]);
}

#[test]
fn case_and_order_do_not_matter_and_nobody_is_named_twice() {
    check(&[("@Bob @PM @bOB", "bob pm"), ("@pm @bob", "pm bob"), ("@x@y", ""), ("@ALL", "all")]);
}

#[test]
fn punctuation_ends_a_name() {
    for end in
        [".", ",", ":", ";", "!", "?", ")", "]", "*", "'s", "…", "/", "–", "\n", "\u{2028}", "\"", "=", "."]
    {
        check(&[(&format!("@pm{end}"), "pm"), (&format!("@pm{end} and"), "pm")]);
    }
    check(&[
        ("@pm-", "pm"),
        ("@pm--", "pm"),
        ("@pm-.", "pm"),
        ("@bob-", "bob-"),
        ("@bob--", "bob-"),
        ("@all- hands", "all"),
        ("@all-hands", ""),
        ("_@pm_ **@x** (@bob) [@types] \"@a_b\"", "pm x bob types a_b"),
        ("- @pm\n-@x\n--@bob cc:@types", "pm x bob types"),
        ("@pm/@x", "pm x"),
        ("ask/@x", ""),
    ]);
}

#[test]
fn names_are_found_in_scripts_without_spaces() {
    check(&[
        ("@bob님, 봐 주세요", "bob"),
        ("그래@pm에게", "pm"),
        ("请@bob看一下@x。", "bob x"),
        ("これは@pmさんへ", "pm"),
        ("é@pm", ""),
        ("@pmé", ""),
        ("привет@pm", ""),
    ]);
}

#[test]
fn addresses_are_no_mentions() {
    check(&[
        ("a@bob", ""),
        ("a.b@bob.example", ""),
        ("a-@bob", ""),
        ("a_@bob", ""),
        ("me+x@bob", ""),
        ("git@x:repo", ""),
        ("@bob@example.org", ""),
        ("@x.example", ""),
        ("@types/node", ""),
        ("https://example.org/@bob and @pm", "pm"),
        ("https://example.org/?a=@bob,@x (https://x/@x) @pm", "pm"),
        ("ssh://@bob", ""),
        ("\\@bob", ""),
        ("@@bob", ""),
        ("user: @bob", "bob"),
        ("mail bob@pm.example or @bob@host or @bob.example", ""),
        ("http://x/@bob a.@bob", ""),
        ("... @bob ...@pm", "bob pm"),
    ]);
}

#[test]
fn code_is_no_mention() {
    check(&[
        ("`@bob`", ""),
        ("`@bob` @pm `@x`", "pm"),
        ("``@bob ` @x`` @pm", "pm"),
        ("a lone ` @pm", "pm"),
        ("`` @pm `", "pm"),
        ("`@bob\n@x` @pm", "pm"),
        ("a lone `\n\n@pm `", "pm"),
        ("```\n@bob\n```\n@pm", "pm"),
        ("```rust\n@bob\n``\n@x\n```` \n@pm", "pm"),
        ("~~~\n@bob\n```\n@x\n~~~\n@pm", "pm"),
        ("```\n@bob", ""),
        ("> ```\n> @bob\n> ```\n> @pm", "pm"),
        ("1. see\n   ```\n   @bob\n   ```\n   @pm", "pm"),
        ("```@bob``` @pm", "pm"),
        ("@x\n```\n@bob\n```", "x"),
        ("`code`@pm", "pm"),
        ("`@bob` and ``x ` @pm`` then @a_b", "a_b"),
    ]);
}

#[test]
fn long_texts_are_scanned_in_linear_time() {
    const SIZE: usize = 1 << 18;
    let rising: String = (0..700).map(|n| "`".repeat(n) + " ").collect();
    let repeated = [
        "@", "@a", "`", "` ", "-@", "@-", "@pm ", "\n", "```\n", "://", "a://", "> ", "_", "@pm\n\n", "@pm/",
    ];
    for piece in repeated.into_iter().chain([&*rising]) {
        let text = piece.repeat(SIZE / piece.len());
        assert_eq!(
            mentioned(&text),
            if piece.contains("@pm") { "pm" } else { "" },
            "{:?}",
            &piece[..piece.len().min(9)]
        );
    }
}

/// A second implementation of the rules, for texts without code, links and scripts without spaces. It looks at each `@`
/// separately.
fn reference_mentions(text: &str) -> Vec<String> {
    let chars: Vec<char> = text.chars().collect();
    let mut found: Vec<String> = Vec::new();
    for (at, _) in chars.iter().enumerate().filter(|(_, c)| **c == '@') {
        let before = chars[..at].iter().rev();
        let dashes = before.clone().take_while(|c| matches!(c, '-' | '_' | '.')).count();
        let word = chars[..at - dashes].last().is_some_and(|c| c.is_alphanumeric());
        let glued = dashes == 0 && before.clone().next().is_some_and(|c| matches!(c, '@' | '/'));
        let name: String = chars[at + 1..]
            .iter()
            .take_while(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
            .collect();
        let after: String = chars[at + 1 + name.chars().count()..].iter().take(2).collect();
        let goes_on = after.starts_with('@')
            || (after.starts_with(['.', '/']) && after.ends_with(|c: char| c.is_ascii_alphanumeric()));
        let mut name = name.to_lowercase();
        while !TEAM.contains(&&*name) && name.ends_with(['-', '_']) {
            name.pop();
        }
        if !word && !glued && !goes_on && TEAM.contains(&&*name) && !found.contains(&name) {
            found.push(name);
        }
    }
    found
}

proptest! {
    #[test]
    fn mentions_match_the_reference_implementation(pieces in prop::collection::vec(
        prop::sample::select(vec!["@", "bob", "pm", "-", "other", "_", ".", " ", "a_b", "B", "x", "1", ",", "\n", "(", "types"]),
        0..30,
    )) {
        let text = pieces.concat();
        prop_assert_eq!(mentioned(&text), reference_mentions(&text).join(" "));
    }

    #[test]
    fn any_text_is_scanned_without_panic(text in any::<String>()) {
        mentioned(&text);
    }

    #[test]
    fn prose_ranges_are_ordered_and_within_the_text(
        pieces in prop::collection::vec(prop::sample::select(vec!["`", "``", "```", "\n", "a", "~~~", "> ", "안"]), 0..30),
    ) {
        let text = pieces.concat();
        let mut end = 0;
        for part in prose::prose(&text) {
            prop_assert!(part.start >= end && part.start < part.end);
            prop_assert!(text.get(part.clone()).is_some());
            end = part.end;
        }
    }

    #[test]
    fn a_mention_among_words_is_found(
        before in "[a-z ]{0,20}[ (]", after in "([ ),!?]|\\. )[a-z ]{0,20}", name in prop::sample::select(TEAM.to_vec()),
    ) {
        prop_assert_eq!(mentioned(&format!("{before}@{name}{after}")), name);
        prop_assert_eq!(mentioned(&format!("{before}`@{name}`{after}")), "");
        prop_assert_eq!(mentioned(&format!("{before}mail@{name}{after}")), "");
    }
}

#[test]
fn unknown_mentions_are_found() {
    let known = ["coder", "ann.k"];
    let found = |text: &str| unknown(text, known.iter().copied());
    assert_eq!(found("@codr and @Coder, @codr! @all"), ["codr"]);
    assert_eq!(found("mail a@b.org, see @scope/name, `@override`, https://x/@y"), [""; 0]);
    assert_eq!(found("@nobody-"), ["nobody"]);
    assert_eq!(found(&(0..30).map(|n| format!("@x{n} ")).collect::<String>()).len(), 10);
}
