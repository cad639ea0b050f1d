"""When assets of other people, which read a corpus, should be made again."""

from __future__ import annotations

import dagster as dg


def on_new_snapshot() -> dg.AutomationCondition:  # type: ignore[type-arg]
    """True for an asset when the data version of something that it depends on has changed since it was made.

    `dg.AutomationCondition.eager` also answers to a refresh that found nothing to do: that is a materialization as well,
    of the same data version.
    """
    changed = dg.AutomationCondition.any_deps_match(dg.AutomationCondition.data_version_changed())
    return (
        changed.since_last_handled() & ~dg.AutomationCondition.in_progress() & ~dg.AutomationCondition.any_deps_missing()
    ).with_label("on_new_snapshot")
