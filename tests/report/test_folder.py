"""The site's folder: nothing is written twice, and nothing is removed that the site did not write."""

import json

from rag_eval_pipeline.report.render import STATE, SiteFolder


def written(root, files, runs=None):
    site = SiteFolder(root)
    for name, data in files.items():
        site.write(name, data)
    for run, (key, names) in (runs or {}).items():
        if not site.is_made(run, key):
            site.making(run, key)
            for name, data in names.items():
                site.write(name, data)
            site.made()
    site.close()
    return site.written


def test_equal_bytes_are_not_written_again(tmp_path):
    assert written(tmp_path, {"a.html": b"a", "b/c.js": b"c"}) == 2
    assert written(tmp_path, {"a.html": b"a", "b/c.js": b"C"}) == 1


def test_what_is_no_longer_shown_goes_with_its_folder_and_what_others_wrote_stays(tmp_path):
    (tmp_path / "runs/x").mkdir(parents=True)
    (tmp_path / "leaderboard.json").write_text("{}")
    written(tmp_path, {"index.html": b"i", "runs/x/index.html": b"x"})

    written(tmp_path, {"index.html": b"i"})

    assert sorted(p.name for p in tmp_path.iterdir()) == [STATE, "index.html", "leaderboard.json"]


def test_a_run_that_is_made_from_the_same_is_kept_unread(tmp_path):
    runs = {"r1": ("key", {"runs/r1.html": b"1"})}
    written(tmp_path, {}, runs)
    (tmp_path / "runs/r1.html").write_bytes(b"as it was")

    assert written(tmp_path, {}, runs) == 0
    assert (tmp_path / "runs/r1.html").read_bytes() == b"as it was"
    assert written(tmp_path, {}, {"r1": ("other key", {"runs/r1.html": b"2"})}) == 1


def test_a_run_whose_file_was_removed_is_made_again(tmp_path):
    runs = {"r1": ("key", {"runs/r1.html": b"1"})}
    written(tmp_path, {}, runs)
    (tmp_path / "runs/r1.html").unlink()

    assert written(tmp_path, {}, runs) == 1


def test_an_edited_state_removes_nothing_outside(tmp_path):
    outside = tmp_path / "precious"
    outside.write_text("x")
    root = tmp_path / "reports"
    root.mkdir()
    (root / STATE).write_text(json.dumps({"files": ["../precious", str(outside)], "runs": {}}))

    written(root, {"a": b"a"})

    assert outside.exists()


def test_a_damaged_state_costs_only_time(tmp_path):
    written(tmp_path, {"a": b"a"})
    (tmp_path / STATE).write_text("{")

    assert written(tmp_path, {"a": b"a"}) == 0
