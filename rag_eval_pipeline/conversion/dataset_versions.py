"""A published dataset version stays what it was: evaluations of it are compared with each other."""

import shutil
from pathlib import Path

from rag_eval_pipeline.conversion.spec import spec_place
from rag_eval_pipeline.conversion.stamp import Conversion
from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.version_difference import version_difference
from rag_eval_pipeline.storage.atomic import publish


def publish_version(conversion: Conversion, made: Path, target: Path) -> None:
    """Moves a finished `.eval.json` to its place, unless other content stands there under the same version.

    Args:
        conversion: Says whether the old content may be replaced.
        made: The new file; gone afterwards.
        target: Its place.

    Raises:
        InputError: `version_conflict` with what differs.
    """
    try:
        difference = None if conversion.replace or not target.exists() else version_difference(target, made)
        if difference is not None:
            name, version = conversion.paths.name, conversion.spec.version
            raise InputError(
                "version_conflict",
                spec_place(conversion.paths)("version", None),
                f"a higher version than {version}, which was published with other content",
                field="version",
                found=difference,
                hint=f"Raise `version`; or, if nobody needs the old one: rag-eval convert {name} --replace",
            )
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            publish(made, target)
        except OSError:  # another file system, behind a mount or a link
            shutil.copyfile(made, temp := target.with_name(f".tmp-{target.name}"))
            publish(temp, target)
    finally:
        made.unlink(missing_ok=True)
