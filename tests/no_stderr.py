"""Plugin of pytest: nbval compares all but standard error (warnings, progress), which no notebook keeps."""


def pytest_collection_modifyitems(items) -> None:
    for item in items:
        skipped = getattr(item.parent, "skip_compare", None)  # nbval's, of a notebook
        if skipped is not None and "stderr" not in skipped:
            item.parent.skip_compare = (*skipped, "stderr")
