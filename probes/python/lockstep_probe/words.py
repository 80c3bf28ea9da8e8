"""What is written for people: print, logging, progress bars, TensorBoard, Weights & Biases, CSV."""

import builtins
import csv
import logging

from . import patches, wire


def _timed(what):
    return patches.timed(wire.LOGGING, what)


def hook_builtins():
    patches.replace(builtins, "print", _timed(b"print"))
    patches.replace(logging.Logger, "handle", _timed(b"logging"))
    patches.replace(csv, "writer", _csv_writer)


def hook_tqdm(module):
    """module: tqdm.std."""
    patches.replace(module.tqdm, "display", _timed(b"tqdm"))


def hook_tensorboard(module):
    """module: torch.utils.tensorboard.writer or tensorboardX.writer."""
    writer = module.SummaryWriter
    for name in [name for name in vars(writer) if name.startswith("add_") or name == "flush"]:
        patches.replace(writer, name, _timed(f"SummaryWriter.{name}"[:32].encode()))


def hook_wandb(module):
    """module: wandb.sdk.wandb_run."""
    patches.replace(module.Run, "log", _timed(b"wandb.log"))


class _TimedCsvWriter:
    """csv.writer's objects are of a type that takes no attributes: one around it."""

    def __init__(self, writer):
        self._writer = writer
        self.writerow = _timed(b"csv.writerow")(writer.writerow)
        self.writerows = _timed(b"csv.writerows")(writer.writerows)

    def __getattr__(self, name):
        return getattr(self._writer, name)


def _csv_writer(original):
    def writer(*args, **kwargs):
        return _TimedCsvWriter(original(*args, **kwargs))

    return writer
