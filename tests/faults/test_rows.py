"""Which test stands for which row of the fault table: what is read, fetched, printed and asked (rows 1-40, 44-53, 61).

A row says what must happen to a kind of bad input; the tests named here show that it does. Further tests of the same rows
are named in the module docstrings.
"""

import ast

import pytest

from tests.conftest import REPOSITORY

ROWS = {
    "1: private addresses in every spelling": (
        "web/test_egress.py::test_private_address_is_not_public",
        "web/test_egress.py::test_policy_refuses_spellings_of_loopback_by_what_they_resolve_to",
        "web/test_fetcher.py::test_fetcher_reaches_neither_this_machine_nor_dead_hosts_nor_a_proxy_of_the_environment",
    ),
    "2: private addresses of IPv6": ("web/test_egress.py::test_private_address_is_not_public",),
    "3: names that change their address": (
        "web/test_egress_proxy.py::test_proxy_does_not_resolve_a_name_again_that_changes_its_address",
        "web/test_egress.py::test_policy_refuses_a_host_for_one_private_answer",
    ),
    "4: redirects": ("web/test_fetcher.py::test_fetcher_names_why_there_is_no_body",),
    "5: credentials and cookies at another origin": (
        "web/test_fetcher.py::test_fetcher_sends_credentials_and_cookies_to_their_origin_on_the_way_to_one_body",
    ),
    "6: URLs that two readers understand differently": (
        "web/test_fetcher.py::test_check_url_refuses_what_cannot_be_requested",
        "web/test_fetcher.py::test_check_url_accepts_any_text_or_refuses_it_with_a_code",
        "web/test_egress_proxy.py::test_proxy_refuses_what_two_parsers_could_understand_differently",
    ),
    "7: other schemes": (
        "web/test_fetcher.py::test_check_url_refuses_what_cannot_be_requested",
        "corpus/hostile/test_reach.py::test_document_has_no_other_scheme_than_http",
        "corpus/hostile/test_reach.py::test_page_reads_a_file_by_no_kind_of_request",
    ),
    "8: what a page asks for": (
        "corpus/test_builder.py::test_build_lets_no_page_reach_a_service_that_is_open_to_others",
        "corpus/hostile/test_reach.py::test_page_reaches_an_allowed_host_by_every_kind_of_request",
        "corpus/hostile/test_reach.py::test_page_reaches_this_machine_by_no_kind_of_request",
    ),
    "9: where a page leads": (
        "corpus/test_builder.py::test_build_keeps_a_local_page_where_it_is",
        "corpus/hostile/test_reach.py::test_page_that_leads_to_this_machine_is_an_error",
        "corpus/hostile/test_reach.py::test_popup_to_this_machine_leaves_the_page_as_it_is",
    ),
    "10: WebRTC": (
        "corpus/hostile/test_reach.py::test_web_rtc_sends_no_datagram",
    ),
    "11: proxies of the environment": ("web/test_fetcher.py::test_fetcher_reaches_neither_this_machine_nor_dead_hosts_nor_a_proxy_of_the_environment",),
    "12: the browser's own requests": (
        "corpus/hostile/test_hostile.py::test_hostile_pages_make_the_browser_resolve_no_other_host",
    ),
    "13: the operator's own hosts": (
        "web/test_egress.py::test_policy_allows_a_private_host_by_exact_host_and_port",
        "web/test_egress_proxy.py::test_proxy_refuses_without_a_connection_and_logs_the_refusal",
    ),
    "14: bombs on the wire": ("web/test_fetcher.py::test_fetcher_names_why_there_is_no_body",),
    "15: bodies that end too late or too early": (
        "web/test_fetcher.py::test_fetcher_names_why_there_is_no_body",
        "web/test_fetcher.py::test_fetcher_ends_a_body_without_end_at_the_wall_clock",
    ),
    "16: slow bodies": ("web/test_fetcher.py::test_fetcher_ends_a_body_without_end_at_the_wall_clock",),
    "17: pages served as something else": (
        "web/test_fetcher.py::test_fetcher_refuses_a_pdf_by_name_that_is_none_unless_it_is_labelled_as_a_page",
        "web/test_fetcher.py::test_fetcher_names_why_there_is_no_body",
    ),
    "18: statuses": (
        "web/test_fetcher.py::test_fetcher_retries_a_busy_server",
    ),
    "19: stems that are no name": (
        "corpus/test_naming.py::test_url_stem",
        "corpus/test_naming.py::test_names_of_any_urls_are_valid_distinct_and_kept_by_pins",
        "corpus/test_folder.py::test_folder_refuses_a_name_that_is_no_component",
    ),
    "20: two documents of one name": (
        "corpus/test_naming.py::test_name_of_a_collision_gets_eight_digits_of_the_urls_hash_or_is_refused",
        "corpus/test_naming.py::test_names_that_some_file_system_takes_for_equal_are_a_collision",
    ),
    "21: overlong names": (
        "corpus/test_naming.py::test_name_of_an_overlong_stem_is_cut_between_escapes_and_ends_in_sixteen_digits",
    ),
    "22: names that other systems reserve": ("corpus/test_naming.py::test_name_of_a_url",),
    "23: identifiers with `../`, globs, quotes": (
        "faults/test_names.py::test_file_of_a_context_is_one_that_is_listed_or_its_question_is_quarantined",
        "faults/test_names.py::test_any_name_of_a_benchmark_is_one_plain_component_or_refused",
        "faults/test_names.py::test_version_is_semantic_or_the_benchmark_is_refused",
        "faults/test_names.py::test_filename_in_train_json_is_exactly_one_of_the_corpus",
        "formats/test_store.py::test_id_that_can_be_no_file_name_is_not_saved",
        "evaluation/test_results.py::test_evaluation_id_is_no_path",
    ),
    "24: archives with unsafe members": (
        "sources/test_archive.py::test_archive_rejects_unsafe_names",
        "sources/test_archive.py::test_archive_rejects_links_devices_and_rare_methods",
        "sources/test_archive.py::test_archive_rejects_repeated_names",
        "faults/test_archives.py::test_hostile_archive_refuses_its_benchmark_and_leaves_nothing",
    ),
    "25: archive bombs": (
        "sources/test_archive.py::test_archive_rejects_more_than_the_caps_allow",
        "sources/test_archive.py::test_zip_rejects_entries_that_share_data",
        "faults/test_archives.py::test_hostile_archive_refuses_its_benchmark_and_leaves_nothing",
    ),
    "26: links planted in the corpus or the data": (
        "corpus/test_folder.py::test_folder_replaces_a_link_in_the_place_of_a_document",
        "corpus/test_folder.py::test_folder_that_is_a_link_or_has_a_folder_is_refused",
        "sources/test_relations.py::test_source_rejects_linked_file",
        "faults/test_names.py::test_body_outside_of_the_benchmarks_folder_is_noted_and_never_read",
        "faults/test_names.py::test_link_in_the_place_of_a_pdf_has_no_text",
        "faults/test_names.py::test_filename_in_train_json_is_exactly_one_of_the_corpus",
    ),
    "27: rows and headers of a CSV": (
        "faults/test_csv.py::test_bad_row_is_quarantined_with_its_line_and_the_other_is_a_question",
        "faults/test_csv.py::test_file_whose_rows_cannot_be_counted_is_refused_whole",
        "faults/test_csv.py::test_column_that_is_missing_is_asked_for_by_its_name",
    ),
    "28: long cells": ("faults/test_csv.py::test_long_cells_are_read_up_to_the_limit",),
    "29: cells that look like something else": ("faults/test_csv.py::test_cells_stay_the_text_that_they_are",),
    "30: encodings": (
        "faults/test_csv.py::test_marked_and_stated_encodings_are_read",
        "faults/test_csv.py::test_row_that_is_not_in_the_stated_encoding_is_refused_and_never_replaced",
    ),
    "31: lines of JSON": (
        "faults/test_json.py::test_bad_line_is_quarantined_and_the_lines_around_it_are_questions",
        "faults/test_json.py::test_line_separator_inside_a_text_ends_no_line",
    ),
    "32: numbers, keys and depth of JSON": (
        "faults/test_json.py::test_json_file_is_one_value_and_refused_as_one",
        "faults/test_json.py::test_our_own_files_are_read_as_strictly",
        "faults/test_json.py::test_deep_value_beside_the_question_does_no_harm",
    ),
    "33: ids": (
        "faults/test_json.py::test_sources_id_is_kept_or_its_row_is_refused_and_ours_is_the_row",
        "conversion/test_planning.py::test_ids_of_the_source_that_repeat_are_noted",
    ),
    "34: questions, answers and flags": (
        "faults/test_json.py::test_field_that_is_none_costs_its_row_and_false_as_a_text_is_false",
        "faults/test_json.py::test_question_that_is_no_text_is_refused_alone_and_among_texts",
    ),
    "35: damaged and strange parquet": (
        "sources/test_readers.py::test_parquet_rejects_cut_file",
        "faults/test_parquet.py::test_file_that_cannot_be_told_is_refused_by_name",
        "faults/test_parquet.py::test_changed_bytes_are_read_or_refused_and_never_a_crash",
        "faults/test_parquet.py::test_page_whose_checksum_is_wrong_is_refused",
        "faults/test_parquet.py::test_what_only_its_writer_knows_is_read_as_what_it_holds",
    ),
    "36: parquet bombs": (
        "faults/test_parquet.py::test_file_that_decodes_to_more_than_the_limits_allow_is_refused",
        "faults/test_parquet.py::test_bomb_leaves_the_reading_processs_memory_as_it_was",
    ),
    "37: YAML": (
        "faults/test_yaml.py::test_benchmark_is_refused_with_the_line",
        "faults/test_yaml.py::test_dataset_is_found_to_be_bad",
        "faults/test_yaml.py::test_norwegian_octal_sexagesimal_and_short_versions_stay_words",
    ),
    "38: PDFs": (
        "faults/test_pdf.py::test_what_cannot_be_read_is_refused_and_the_next_file_is_read",
        "faults/test_pdf.py::test_bad_pdfs_cost_their_questions_and_the_run_goes_on",
        "faults/test_pdf.py::test_pdf_without_text_is_flagged",
    ),
    "39: spans": (
        "faults/test_spans.py::test_span_is_a_piece_of_its_document_or_costs_its_question",
        "faults/test_spans.py::test_span_of_a_dataset_is_found_to_be_bad_with_its_place",
        "faults/test_spans.py::test_end_is_behind_the_last_character",
    ),
    "40: other forms of stored files": (
        "faults/test_schemas.py::test_another_form_is_refused_and_named",
        "faults/test_schemas.py::test_files_of_this_form_and_without_a_form_are_read_and_left_as_they_lie",
    ),
    "44: secrets": (
        "e2e/test_http_systems.py::test_secret_stands_in_no_file_and_no_message",
        "web/test_client.py::test_secret_that_a_server_quotes_is_masked",
        "judges/test_llm.py::test_secrets_are_in_no_judgement_file_or_log",
    ),
    "45: busy servers": (
        "web/test_client.py::test_request_is_retried_under_the_same_id",
        "web/test_client.py::test_pause_that_a_server_asks_for_holds_for_all_callers",
        "web/test_client.py::test_request_ends_within_its_total_limit",
        "web/test_limits.py::test_retry_after",
        "evaluation/test_asking.py::test_budget_that_is_used_up_keeps_what_was_answered",
    ),
    "46: broken connections": (
        "web/test_client.py::test_request_that_fails_has_a_code_and_counts_what_was_sent",
        "web/test_client.py::test_request_to_a_closed_port_or_an_unknown_name_counts_nothing",
        "web/test_client.py::test_endpoint_trusts_the_authority_of_its_ca_file",
        "web/test_client.py::test_request_gives_up_an_attempt_that_takes_too_long",
    ),
    "47: what is no reply": (
        "web/test_client.py::test_reply_that_is_no_json_is_quoted",
        "web/test_openai_chat.py::test_chat_reply_of_a_wrong_shape_is_an_error",
        "web/test_client.py::test_request_that_fails_has_a_code_and_counts_what_was_sent",
    ),
    "48: cut streams": (
        "web/test_openai_chat.py::test_chat_stream_has_an_end",
        "web/test_openai_chat.py::test_chat_stream_that_fails_keeps_the_text_so_far",
        "web/test_sse.py::test_events_do_not_depend_on_chunks",
        "systems/nvidia/test_replies.py::test_stream_that_is_no_answer_is_refused",
    ),
    "49: nothing is paid for twice": (
        "web/test_client.py::test_request_that_must_not_be_repeated_is_sent_once",
        "web/test_client.py::test_stream_is_read_and_never_paid_for_twice",
        "web/test_client.py::test_request_returns_the_body_and_its_account_by_no_proxy_of_the_environment",
        "e2e/test_http_systems.py::test_ledger_counts_every_request_that_the_server_saw",
    ),
    "50: attacks on a judge": (
        "judges/test_attacks.py::test_attacks_are_flagged_stay_inside_the_data_and_change_no_honest_verdict",
        "judges/test_attacks.py::test_reply_that_repeats_the_data_is_no_verdict",
        "judges/test_attacks.py::test_captured_judge_is_flagged_and_contradicted",
    ),
    "51: unreadable verdicts": (
        "judges/test_replies.py::test_reply_is_refused",
        "judges/test_replies.py::test_any_text_is_no_verdict",
        "judges/test_llm.py::test_failure_has_a_code_and_no_number",
        "judges/test_llm.py::test_fallback_score_is_optional_and_flagged",
    ),
    "52: another model": (
        "judges/test_llm.py::test_another_model_within_a_run_is_a_failure_and_the_next_run_is_of_the_new_one",
        "judges/test_llm.py::test_fingerprint_changes_with_what_can_change_a_verdict",
    ),
    "53: failures in the cache": (
        "judges/test_llm.py::test_repeated_evaluation_comes_from_the_cache",
        "judges/test_cache.py::test_cache_keeps_unusable_replies_apart_and_bounded",
    ),
    "61: what breaks a browser": (
        "corpus/hostile/test_hostile.py::test_hostile_page_gives_a_right_pdf_or_an_error_with_a_code",
        "corpus/hostile/test_crashes.py::test_killed_process_costs_no_document",
        "corpus/hostile/test_crashes.py::test_page_that_dies_each_time_is_an_error_and_the_next_one_is_printed",
        "corpus/hostile/test_reach.py::test_certificate_of_an_unknown_authority_is_not_accepted",
        "corpus/test_trust.py::test_certificate_that_is_refused_says_why_and_what_to_do",
        "sources/test_download.py::test_download_trusts_a_companys_authority_and_no_other",
    ),
}  # fmt: skip


@pytest.mark.parametrize("tests", ROWS.values(), ids=ROWS)
def test_each_row_has_tests_that_exist(tests):
    for test in tests:
        file, _, name = test.partition("::")
        tree = ast.parse((REPOSITORY / "tests" / file).read_text())
        assert name in {
            node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        }, test
