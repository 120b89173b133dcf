"""The mistakes by name, each with its trials in a project."""

from collections.abc import Callable, Iterator, Mapping

from self_check import mistaken_calls, mistaken_places, mistaken_work
from self_check.project import Project
from self_check.trial import Trial

Mistake = Callable[[Project], Iterator[Trial]]

MISTAKES: Mapping[str, Mistake] = {
    make.__name__.replace("_", "-"): make
    for make in (
        mistaken_places.wrong_name,
        mistaken_places.wrong_folder,
        mistaken_places.wrong_case,
        mistaken_places.path_outside,
        mistaken_places.stale_text,
        mistaken_places.moved_file,
        mistaken_places.missing_context,
        mistaken_places.misquoted_line,
        mistaken_places.wrong_indent,
        mistaken_places.pasted_numbers,
        mistaken_places.wrong_line_number,
        mistaken_calls.empty_reply,
        mistaken_work.repeated_call,
        mistaken_work.huge_output,
        mistaken_calls.call_in_text,
        mistaken_calls.broken_json,
        mistaken_calls.wrong_types,
        mistaken_calls.wrong_tool,
        mistaken_calls.wrong_argument,
        mistaken_places.wrong_patch,
        mistaken_places.wrong_pattern,
        mistaken_places.unread_file,
        mistaken_work.lost_folder,
        mistaken_work.huge_file,
        mistaken_work.failing_test,
    )
}
