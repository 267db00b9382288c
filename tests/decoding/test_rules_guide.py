"""The decoding guide tells the truth."""

import dataclasses
import re
from pathlib import Path
from typing import Any, get_args

import pytest

from sundae.config import RuleName, SamplingConfig

GUIDE = (Path(__file__).parents[2] / "docs" / "decoding.md").read_text(encoding="utf-8")


def test_the_rule_of_the_guide_runs_and_prints_what_the_guide_says(capsys: pytest.CaptureFixture[str]):
    code = "\n".join(re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL))
    exec(code, {})  # the guide's own code
    shown = re.search(r"```\n(\[\[0, 0, 0, 0\]\].*?)```", GUIDE, re.DOTALL)
    assert shown is not None
    assert capsys.readouterr().out == shown[1]


def test_the_guide_names_every_rule_and_the_default_of_every_later_key():
    for name in get_args(RuleName):
        assert f"| `{name}` |" in GUIDE
    defaults: dict[str, Any] = {field.name: field.default for field in dataclasses.fields(SamplingConfig)}
    later = list(defaults)[list(defaults).index("final_temperature") :]
    for key in ("temperature", *later):
        row = re.search(rf"^\| `{key}` \| (\S+) \|", GUIDE, re.MULTILINE)
        assert row is not None, key
        assert float(row[1]) == defaults[key]
