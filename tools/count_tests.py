#!/usr/bin/env python3
"""Adds up JUnit files: prints "12 passed, 0 failed, 1 skipped" over all *.xml files in the given folders.

Exits with 1 if a test failed or none ran.
"""

import pathlib
import sys
import xml.etree.ElementTree as ElementTree


def count(path):
    """(passed, failed, skipped) of one file."""
    passed = failed = skipped = 0
    for case in ElementTree.parse(path).iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            failed += 1
        elif case.find("skipped") is not None or case.get("status") in ("notrun", "disabled"):
            skipped += 1
        else:
            passed += 1
    return passed, failed, skipped


def main():
    files = [file for folder in sys.argv[1:] for file in pathlib.Path(folder).glob("*.xml")]
    passed, failed, skipped = (sum(column) for column in zip((0, 0, 0), *map(count, files)))
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
