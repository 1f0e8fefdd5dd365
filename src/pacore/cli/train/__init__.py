"""The commands of ``pacore train``, one file each."""

from pacore.cli.train.app import train

__all__ = ["train"]
