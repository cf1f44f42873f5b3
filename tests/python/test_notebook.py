"""The notebook for newcomers prints what is committed with it, on the device under test.

`python tests/python/test_notebook.py` runs it and keeps what it prints.
"""

import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import nbformat
import pytest
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell

NOTEBOOK = Path(__file__).parents[2] / "docs" / "first-steps.ipynb"

# Cells that print what the machine is like have this tag, and no outputs.
VARIES = "varies"

CHOICE = """
import mlx.core as mx
mx.set_default_device(mx.{})
"""


def is_code(cell):
    return cell.cell_type == "code"


def varies(cell):
    return VARIES in cell.metadata.get("tags", [])


def text(output):
    """What an output shows, or none where it is a warning, which depends on the machine."""
    if output.output_type == "stream":
        return output.text if output.name == "stdout" else ""
    return output.data["text/plain"]


def shown(cell):
    return "".join(map(text, cell.outputs))


def executed(notebook, device, folder):
    """The code cells of a notebook after a run in a folder, without the one that chooses the device."""
    notebook.cells.insert(0, new_code_cell(CHOICE.format(device)))
    settings = {"metadata": {"path": str(folder)}}
    # A cell that raises ends the run with its exception.
    NotebookClient(notebook, timeout=600, kernel_name="python3", resources=settings).execute()
    return list(filter(is_code, notebook.cells))[1:]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Where the notebook's files and the kernel's own go."""
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    return tmp_path


def test_prints_what_is_committed(folder):
    committed = nbformat.read(NOTEBOOK, as_version=4)
    before = [shown(cell) for cell in filter(is_code, committed.cells)]
    after = executed(committed, os.environ.get("DEVICE", "cpu"), folder)
    assert len(after) == len(before)
    for cell, expected in zip(after, before):
        if varies(cell):
            assert expected == "", cell.source
            assert shown(cell), cell.source
        else:
            assert shown(cell) == expected, cell.source


def keep_outputs(device):
    """Writes what a run prints into the notebook."""
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    run = nbformat.read(NOTEBOOK, as_version=4)
    with TemporaryDirectory() as folder:
        os.environ["IPYTHONDIR"] = folder
        after = executed(run, device, folder)
    for cell, ran in zip(filter(is_code, notebook.cells), after):
        printed = "" if varies(cell) else shown(ran)
        stream = nbformat.v4.new_output("stream", name="stdout", text=printed)
        cell.outputs = [stream] if printed else []
        cell.execution_count = None
    nbformat.write(notebook, NOTEBOOK)


if __name__ == "__main__":
    keep_outputs(*sys.argv[1:] or ["cpu"])
