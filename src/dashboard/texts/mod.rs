//! The texts of the pages, one file for each language. A text that a language lacks does not compile.

mod english;
mod korean;

use serde::Serialize;

/// A language of the pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Language {
    English,
    Korean,
}

impl Language {
    /// Returns the first language of the header `Accept-Language` that flock speaks. Browsers name the preferred one
    /// first.
    #[must_use]
    pub(super) fn accepted(header: &str) -> Self {
        let mut tags = header.split(',').map(|part| part.split([';', '-']).next().unwrap_or_default().trim());
        tags.find_map(|tag| match tag {
            _ if tag.eq_ignore_ascii_case("en") => Some(Self::English),
            _ if tag.eq_ignore_ascii_case("ko") => Some(Self::Korean),
            _ => None,
        })
        .unwrap_or(Self::English)
    }

    /// Returns the tag of the for `<html lang>`.
    #[must_use]
    pub(super) const fn tag(self) -> &'static str {
        match self {
            Self::English => "en",
            Self::Korean => "ko",
        }
    }

    #[must_use]
    pub(super) const fn texts(self) -> &'static Texts {
        match self {
            Self::English => &english::TEXTS,
            Self::Korean => &korean::TEXTS,
        }
    }
}

macro_rules! texts {
    ($($(#[doc = $doc:literal])* $name:ident,)*) => {
        /// The texts of the pages. `{}` stands for a value.
        #[derive(Debug)]
        pub(super) struct Texts {
            $($(#[doc = $doc])* pub $name: &'static str,)*
            /// The texts of the scripts.
            pub scripts: ScriptTexts,
            /// The texts of notifications.
            pub notices: NoticeTexts,
        }
    };
}

macro_rules! script_texts {
    ($(#[doc = $doc:literal])* $Texts:ident: $($name:ident,)*) => {
        $(#[doc = $doc])*
        #[derive(Debug, Serialize)]
        #[serde(rename_all = "camelCase")]
        pub(super) struct $Texts {
            $(pub $name: &'static str,)*
        }
    };
}

texts! {
    // The frame of every page.
    pages, skip, keys, keys_title, keys_close, key_go, key_help, key_compose, key_leave, sign_out,
    signed_in_as, freeze_all, thaw_all, all_frozen, waiting_requests,
    // Pages without content of the team.
    signed_in, signed_out, signed_out_how, code_failed, token_failed, provider_failed, provider_refused,
    account_of_nobody, sign_in_with, your_token, sign_in, sign_in_as, code_asks, code_asks_instead, no_such_page, failed,
    run_this, back_to_team,
    // Team.
    team, agents, no_agents, role, model, runtime, state, sandbox, cost_today, since, freeze, thaw, confined,
    not_confined, not_made, not_probed, probed_ago, no_sandbox, scripted,
    state_frozen, state_asking, state_working, state_queued, state_paused, state_parked, state_blocked, state_asleep, state_idle,
    in_session, last_session, using_tool, quota_of, frozen_by, add_reason, change_reason, reason_for_all, reason_shown, asks_for, decide,
    settings, effort, unchanged, add_agent, agent_id, archetype, model_or_default,
    // Channels.
    channels, no_channels, topic, members, messages, state_active, state_archiving, state_archived,
    message, send, earlier_messages, no_messages, new_channel, channel_id, first_members, create, archived_note,
    waiting_messages, take_back, commands, command_compact, command_context, command_new,
    copy_link, jump_to_end, files, picture_named, file_too_large, file_gone, attach, attached,
    // Requests.
    projects, project, no_projects, repository, tip, on_its_way, setup, checks_of_work, submitted_work, nothing_submitted, receipt, accept, send_back, send_back_reason, branches, branch, no_branches, ahead, behind, newest_commit, claims, whole_project, one_column, side_by_side, files_changed, diff_cut, file_cut, no_text, work_queued, work_checking, work_review, work_proven, work_merged, work_refused, work_conflict, work_withdrawn,
    receipts, receipt_title, no_receipts, receipt_accepted, receipt_needs_person, receipt_stale, receipt_refused, receipt_invalid, tree, base_tree, image, output_of_check, check_again,
    races, race, races_about, no_races, copies, race_running, race_person, race_decided, race_over, race_stopped, copy_won, copy_lost, copy_proven, copy_over, copy_working, copy_quiet, keep_copy, stop_race, drop_about, tests_run, race_task,
    automation, automation_about, automation_paused, automation_done, schedules, no_schedules, recipient, times, next_time, last_time, slot_ran, slot_missed, slot_skipped, run_now, pause_this, resume_this, webhooks, no_webhooks, sender, refused_deliveries, automation_name, automation_text, automation_actions, hook_path,
    mcp_servers, mcp_about, no_mcp_servers, mcp_program, mcp_network, mcp_granted, mcp_nobody, mcp_changed, mcp_asks, mcp_grant_about, mcp_running, mcp_idle, mcp_failed,
    checkpoints, checkpoints_about, make_checkpoint, no_checkpoints, checkpoint_turn, checkpoint_asked, checkpoint_rewind, changed_files,
    generations, generations_about, changes, present_state,
    requests, open_requests, all_requests, no_open_requests, no_requests, asked_for, would_do, in_channel, agent, channel, reason, level,
    because, until, scope, scope_once, scope_agent, decided_by, body, digest, approve, deny, revoke, deny_reason, answer, answer_warning,
    result, granted_before, all_is_new,
    request_triage, request_waiting, request_approved, request_running, request_done, request_failed, request_denied,
    request_expired, request_revoked,
    // One channel, and the search.
    key_search, linked_with, manage, save, new_member, add, remove_member, archive, archive_cancel, archive_force,
    archive_reopen, later_messages, search, search_words, found,
    search_everything, search_messages, search_all_words, search_places, search_whose, search_all_agents, search_incomplete, search_closed,
    search_nothing, search_more, search_no_words, search_no_agent, agents_memory, findings, vaults, result_of_tool, file_beginning, earlier_lines,
    finding_about, later_lines,
    // Sessions.
    sessions, chat_with, all_sessions, no_sessions, session, kind, turns, last_used, context, turns_waiting,
    turns_running, stop, compaction, to_agent, thinking, picture, call_failed, no_result, no_turns, message_to,
    turn_started, turn_done, turn_failed, turn_cancelled, turn_interrupted, chat, turn, log_of_turn, no_log,
    // The context of a session.
    context_link, next_request, part, window, kept_for_answer, system_prompt, tool_definitions, held_back, room, conversation,
    // Cost.
    cost, by_day, by_agent, by_model, by_channel, by_person, today, last_days, tokens_in_calls, unpriced, share, tokens, input,
    output, cache, calls, export_csv, no_channel, budgets, budget, budget_of_day,
    budget_of_agent, budget_of_channel, budget_of_person, used, reserved, limit, used_up, count_of_tokens,
    // Graph.
    graph, last_hours, timeline, turns_between, no_turns_then, who_talks, nobody_talked, contact_from, contact_to, contact_post,
    contact_mention, contact_direct, tasks, no_tasks,
    // Machine.
    machine, gateway, gateways, this_gateway, gateway_running, gateway_silent, gateway_unreachable, gateway_started, version, process, configuration, in_order, agents_blocked, engine, engines, engine_ready, engine_draining, engine_silent, engine_lost_after, engine_of_agent_silent, labels, address, package_store, skills, skill_changed, telemetry, spans_sent, spans_lost, database, database_in_file, not_known, second_place, conversations, last_copy, nothing_copied, copies_wait, newest_backup, sandboxes, sandbox_usage, memory, processors, used_of, used_without_limit, none_runs, being_measured, container, probe,
    images, missing, browsers, this_browser, audit, time, who, action, on_what, detail, overview,
    checks, checks_about, run_checks, check_ok, check_warn, check_bad, broken_parts, nothing_broken, warnings_count,
    finding, mend,
    supervisor, restarts, crashes, gave_up, no_supervisor, no_openclaw, previous_version,
    logs, log, level_or_worse, all_levels, lines, with_text, filter, refresh, no_lines,
    verify_about, verify, audit_whole, audit_broken, action_prefix, earlier_rows,
    config_valid, config_invalid, set_value, set_about, unset_value, unset_path, config_path, config_value, backups, no_backups, file, compare,
    difference, no_difference, other_secrets, restore, config_unreadable,
    notifications, notifications_about, gets_notifications, notifications_fail,
    // People.
    people, people_about, no_people, person_active, person_all, person_none, last_seen, not_seen, used_today, person_accounts, person_added, added_by,
    no_tokens, token_made, token_used, token_unused, token_until, token_expired, token_endless, new_token, token_days, token_once, token, copy,
    rights, agents_allowed, channels_allowed, limits_about, day_tokens, day_dollars, remove_about, removed_people, person_removed, add_person, person_name,
}

script_texts! {
    /// The texts that scripts show. They get them as JSON.
    ScriptTexts:
    disconnected, reconnected, ended, failed, hint, sent, frozen, thawed, reason_saved, approved, denied, revoked, created, confirm_freeze,
    new_message, not_sent, stopped, saved, added, unread, working, using, call_ended, loading, loaded, not_loaded,
    set_done, unset_done, off_host, restored, now, seconds, minutes, hours, days,
    withdrawn, file_attached, file_removed, file_remove, files_too_many, file_too_long,
    person_added, person_removed, token_made, copied, not_copied,
    push_on, push_off, push_insecure, push_unsupported, push_refused, push_failed, push_turn_on, push_turn_off,
}

script_texts! {
    /// The texts of notifications, which the service worker gets as JSON. `{agent}`, `{request}` and `{program}` stand
    /// for what the notification names.
    NoticeTexts:
    request_title, request_body, pause_title, pause_body, crash_title, crash_body, other_title, other_body,
}

/// Returns the texts of notifications in all languages, as JSON.
#[must_use]
pub(super) fn worker_texts() -> String {
    let [en, ko] = [Language::English, Language::Korean].map(|language| &language.texts().notices);
    serde_json::json!({"en": en, "ko": ko}).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_language_that_flock_speaks_is_taken() {
        for (header, language) in [
            ("", Language::English),
            ("ko-KR,ko;q=0.9,en;q=0.8", Language::Korean),
            ("de, KO;q=0.5", Language::Korean),
            ("fr", Language::English),
            ("en-GB, ko", Language::English),
        ] {
            assert_eq!(Language::accepted(header), language, "{header}");
        }
    }

    #[test]
    fn every_text_has_the_same_places_in_every_language() {
        let places = |language: Language| {
            // The order of the fields is that of the struct.
            let shown = format!("{:?}", language.texts());
            shown.split("\", ").map(|field| field.matches("{}").count()).collect::<Vec<_>>()
        };
        assert_eq!(places(Language::English), places(Language::Korean));
    }
}
