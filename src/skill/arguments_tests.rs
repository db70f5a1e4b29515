use proptest::prelude::*;
use serde_json::json;

use super::*;

fn filled(text: &str, given: &Value) -> Result<String, ArgumentError> {
    let skill = SkillTemplate::parse(text);
    skill.filled(&skill.bind(given)?)
}

/// Returns the body of a skill with these declared arguments.
fn body(declared: &str, body: &str, given: &Value) -> String {
    let head = format!("---\narguments: {declared}\n---\n");
    filled(&format!("{head}{body}"), given).unwrap().strip_prefix(&head).unwrap().to_owned()
}

#[test]
fn values_stand_in_their_places() {
    for (given, all) in [(json!({"issue": "12", "branch": "a b"}), "12 a b"), (json!("12 'a b'"), "12 'a b'")]
    {
        for (text, expected) in [
            ("Fix $issue on $branch.", "Fix 12 on a b."),
            ("$0, $1, $ARGUMENTS[0]$ARGUMENTS[1], $ARGUMENTS.", "12, a b, 12a b, {all}."),
            // A name ends with its word.
            ("$issues $issue-2 $issue_2 $issueé", "$issues 12-2 $issue_2 $issueé"),
            ("$1st $1.50 $other $$issue $", "$1st a b.50 $other $12 $"),
            ("$ARGUMENTS[x] $ARGUMENTSX", "{all}[x] $ARGUMENTSX"),
            // One backslash keeps a placeholder, two are two, and elsewhere one is one.
            (r"\$issue \$0.5 \$ARGUMENTS \$ARGUMENTS[1] $0", "$issue $0.5 $ARGUMENTS $ARGUMENTS[1] 12"),
            (r"\\$issue \\\$issue \$other \$1st \n", r"\\12 \\\12 \$other \$1st \n"),
            // A position without a value stays and has not received one.
            (
                "$2 $10 $ARGUMENTS[7] $99999999999999999999999",
                "$2 $10 $ARGUMENTS[7] $99999999999999999999999\n\nARGUMENTS: {all}",
            ),
            (r"\$issue", "$issue\n\nARGUMENTS: {all}"),
        ] {
            assert_eq!(body("[issue, branch]", text, &given), expected.replace("{all}", all), "{text}");
        }
    }
    assert_eq!(body("[old, old-name]", "$old-name $old-x", &json!("a b")), "b a-x");
}

#[test]
fn a_skill_that_takes_nothing_is_unchanged() {
    for text in [
        "",
        "Do it.",
        "---\ndescription: x\n---\nDo it for \\$5 or $HOME and $$.\n",
        "\\$ARGUMENTS alone",
        "---\nname: $ARGUMENTS\n---\nthe front matter has no placeholders",
    ] {
        let skill = SkillTemplate::parse(text);
        assert_eq!(skill.arguments(), []);
        assert_eq!(filled(text, &json!({})).unwrap(), text);
        assert_eq!(filled(text, &json!("")).unwrap(), text);
        let error = filled(text, &json!({"x": "1"})).unwrap_err();
        assert_eq!(error.to_string(), "the skill has no argument \"x\"; it takes none");
    }
    // Values that a person typed are not lost.
    assert_eq!(filled("Do it.\n", &json!("now")).unwrap(), "Do it.\n\nARGUMENTS: now");
}

#[test]
fn a_skill_without_names_takes_one_text() {
    let taken = |text: &str| {
        let skill = SkillTemplate::parse(text);
        skill
            .arguments()
            .iter()
            .map(|one| (one.name.clone(), one.description.clone(), one.required))
            .collect::<Vec<_>>()
    };
    let one =
        |description: Option<&str>| vec![("arguments".to_owned(), description.map(str::to_owned), false)];
    assert_eq!(taken("Fix $ARGUMENTS."), one(None));
    assert_eq!(taken("From $0 to $1."), one(None));
    assert_eq!(taken("---\nargument-hint: [issue]\n---\nFix it."), one(Some("[issue]")));
    let text = "From $0 to $1: $ARGUMENTS.";
    let named = json!({"arguments": "\"search bar\" Vue"});
    assert_eq!(filled(text, &named).unwrap(), "From search bar to Vue: \"search bar\" Vue.");
    assert_eq!(filled(text, &json!({})).unwrap(), "From $0 to $1: .");
    assert_eq!(filled(text, &json!({"arguments": ""})).unwrap(), "From $0 to $1: .");
    assert_eq!(
        filled("---\nargument-hint: [issue]\n---\nFix it.", &json!({"arguments": "7"})).unwrap(),
        "---\nargument-hint: [issue]\n---\nFix it.\n\nARGUMENTS: 7"
    );
}

#[test]
fn named_values_are_checked_and_typed_ones_are_not() {
    let text =
        "---\narguments:\n- issue\n- name: branch\n  required: false\n---\n$issue|$branch|$1|$ARGUMENTS";
    let told = |given: Value| filled(text, &given).map_err(|error| error.to_string());
    let head = "---\narguments:\n- issue\n- name: branch\n  required: false\n---\n";
    assert_eq!(told(json!({"issue": "1"})).unwrap(), format!("{head}1||$1|1"));
    assert_eq!(told(json!("1")).unwrap(), format!("{head}1||$1|1"));
    assert_eq!(told(json!("")).unwrap(), format!("{head}||$1|"));
    let takes = "it takes issue, branch (optional)";
    assert_eq!(told(json!({})).unwrap_err(), format!("the skill needs issue; {takes}"));
    assert_eq!(told(json!({"branch": "x"})).unwrap_err(), format!("the skill needs issue; {takes}"));
    let long = "x".repeat(1000);
    let error = told(json!({"issue": "1", long: "2"})).unwrap_err();
    assert!(error.contains("has no argument \"xxx") && error.len() < 200, "{error}");
    assert_eq!(told(json!({"issue": 1})).unwrap_err(), "the argument \"issue\" has to be a text");
    assert_eq!(told(json!({"issue": null})).unwrap_err(), "the argument \"issue\" has to be a text");
    for given in [json!(["1"]), json!(1), json!(true)] {
        assert!(told(given).unwrap_err().contains("an object of texts"));
    }
    let half = "x".repeat(MAX_VALUE_BYTES / 2 + 1);
    assert!(told(json!({"issue": half, "branch": half})).unwrap_err().contains("at most 16384"));
    assert!(told(json!(half.repeat(2))).unwrap_err().contains("at most 16384"));
}

#[test]
fn a_text_does_not_grow_without_limit() {
    let text = format!("---\narguments: a\n---\n{}", "$a ".repeat(100_000));
    let value = json!({"a": "x".repeat(MAX_VALUE_BYTES)});
    assert_eq!(filled(&text, &value), Err(ArgumentError::TooMuch));
    assert!(filled(&text, &json!({"a": "xy"})).is_ok());
}

#[test]
fn what_nobody_sees_in_a_value_is_shown() {
    assert_eq!(filled("<$0>", &json!("a\u{202e}b")).unwrap(), "<a\\u{202e}b>");
    assert_eq!(body("a", "<$a>", &json!({"a": "1\r\n2\u{1b}"})), "<1\n2\\u{1b}>");
}

#[test]
fn a_typed_text_is_split_as_a_shell_does() {
    for (text, expected) in [
        ("", vec![]),
        ("  a \t b\n", vec!["a", "b"]),
        ("\"hello world\" second", vec!["hello world", "second"]),
        ("'a \"b' c'd e'f \"\"", vec!["a \"b", "cd ef", ""]),
        (r#""a\"b\\c\d" e\ f \\"#, vec![r#"a"b\c\d"#, "e f", "\\"]),
        ("don't stop", vec!["don't", "stop"]),
        ("\"open word", vec!["\"open", "word"]),
        ("end\\", vec!["end\\"]),
        ("$HOME `id` a;b", vec!["$HOME", "`id`", "a;b"]),
    ] {
        assert_eq!(words(text), expected, "{text}");
    }
}

proptest! {
    /// Whatever a value contains, it stands in the result as it is, and nothing in it is replaced.
    #[test]
    fn a_value_is_never_read_again(
        one in r"[$\\a-c0-2 \[\]{}A-Z]{0,12}(\$(one|two|ARGUMENTS|ARGUMENTS\[1\]|0|1))?[$\\ ]{0,3}",
        two in r"(\$(one|two|ARGUMENTS|0|1)| |\\){0,6}",
    ) {
        let given = json!({"one": one, "two": two});
        let shown = body("[one, two]", "<$one|$two|$0|$1|$ARGUMENTS[1]|$ARGUMENTS>", &given);
        prop_assert_eq!(shown, format!("<{one}|{two}|{one}|{two}|{two}|{one} {two}>"));
    }

    /// Any text and any values are taken or refused, and text without a dollar sign stays.
    #[test]
    fn any_text_is_filled_or_refused(text in ".{0,200}", given in ".{0,60}", declared in "[a-z ,-]{0,20}") {
        let whole = format!("---\narguments: {declared}\n---\n{text}");
        let _ = filled(&whole, &json!(given));
        if !text.contains('$') {
            let shown = filled(&whole, &json!(given)).unwrap();
            prop_assert!(shown.starts_with(&whole));
        }
    }
}
