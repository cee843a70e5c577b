"""Fixtures of upgrades and rollbacks: the former version, and the step to or from it."""

from __future__ import annotations

import pytest

from support.upgrades.former import THIS, NoHistoryError, Step, Version, unpacked


@pytest.fixture(scope="session")
def former(tmp_path_factory: pytest.TempPathFactory) -> Version:
    """The version before this one; without the repository's history the test is skipped."""
    try:
        return unpacked(tmp_path_factory.mktemp("former"))
    except NoHistoryError as error:
        pytest.skip(str(error))


@pytest.fixture(params=["upgrade", "rollback"])
def step(request: pytest.FixtureRequest, former: Version) -> Step:
    """Both ways."""
    return Step(former, THIS) if request.param == "upgrade" else Step(THIS, former)
