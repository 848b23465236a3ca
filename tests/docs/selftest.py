#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Each check of check.py finds what it is there to find.

A page is spoilt, one place at a time, and the check must say so; the unspoilt
pages are the business of the test docs.  Takes the arguments of check.py.
"""
import sys

sys.dont_write_bytecode = True
import check  # noqa: E402

# check, page, what stands there, what it is made into
SPOILT = [
    (check.promises_name_tests, "README.md", "Test: `", "Tests: `"),
    (check.named_tests_exist, "README.md", "`unit_test_writer`",
     "`unit_test_letter`"),
    (check.named_tests_exist, "tests/README.md", "`lint", "`lint_no_such"),
    (check.named_cases_exist, "tests/README.md", "_leaves_neither`",
     "_leaves_both`"),
    (check.guards_have_controls, "port/paho/README.md", "`transport_prints`",
     "`transport_sings`"),
    (check.guards_have_controls, "port/paho/README.md", "| fact: ", "| "),
    (check.guards_have_controls, "port/paho/README.md", "| trap |", "| it |"),
    (check.parts_are_fresh, "README.md", "| `1..1000` messages |",
     "| `1..999` messages |"),
    (check.parts_are_fresh, "README.md", "postbag_start(",
     "postbag_begin("),
    (check.parts_are_fresh, "README.md", "<!-- end options -->", ""),
    (check.commands_are_listed, "README.md", "| `postbag purge DB --yes`",
     "| `postbag shred DB --yes`"),
    (check.files_are_mapped, "src/README.md", "`lease`", "`lace`"),
    (check.files_are_mapped, "src/README.md", "`cli/words`", "`cli/works`"),
    (check.tables_are_described, "src/FORMAT.md", "| `key_version` |",
     "| `key_vision` |"),
    (check.tables_are_described, "src/FORMAT.md", "| `payload` | ANY |",
     "| `payload` | BLOB |"),
    (check.tables_are_described, "src/FORMAT.md", "| `sent_hi` |",
     "| sent_hi |"),
    (check.tables_are_described, "src/FORMAT.md", "`outbox_urgent`", "it"),
    (check.tables_are_described, "src/FORMAT.md", "| `outbox_frozen` |",
     "| frozen |"),
    (check.tables_are_described, "src/FORMAT.md", "### View `outbox_status`",
     "### View `outbox_stated`"),
    (check.described_tables_exist, "src/FORMAT.md", "### Table `outbox_lost`",
     "### Table `outbox_last`"),
    (check.meta_is_described, "src/FORMAT.md", "| `stream` |", "| stream |"),
    (check.live_state_is_described, "src/FORMAT.md", "| `in_flight` |",
     "| `in_fright` |"),
    (check.links_resolve, "README.md", "(src/DESIGN.md)", "(src/DESIGNS.md)"),
    (check.links_resolve, "README.md", "(#brokers)", "(#brokerage)"),
    (check.links_resolve, "src/DESIGN.md", "## The lease\n", "## The least\n"),
    (check.examples_run, "README.md", "UPDATE valve SET is_open = 1 WHERE",
     "UPDATE valves SET is_open = 1 WHERE"),
    (check.examples_run, "README.md", 'db.execute("COMMIT")',
     'db.execute("COMMENT")'),
    (check.examples_run, "README.md", 'db.execute("COMMIT")', ""),
    (check.examples_run, "README.md", "outbox(topic, payload) VALUES",
     "outbox(topic, pailode) VALUES"),
    (check.examples_run, "README.md", "return POSTBAG_RETRY;",
     "return POSTBAG_AGAIN;"),
]


def main(arguments):
    arguments = check.parse(arguments)
    missed = 0
    for rule in set(check.CHECKS) - {rule for rule, *_ in SPOILT}:
        print(f"nothing is spoilt for {rule.__name__}")
        missed += 1
    for rule, page, there, spoilt in SPOILT:
        facts = check.Facts(arguments)
        text = facts.pages[page]
        facts.pages[page] = text.replace(there, spoilt)
        if facts.pages[page] == text:
            print(f"{page} has no \"{there}\" to spoil")
            missed += 1
        elif not list(rule(facts)):
            print(f"{rule.__name__} does not see {spoilt!r} in {page}")
            missed += 1
    print(f"{len(SPOILT)} spoilt, {missed} missed")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
