"""The miniature's weights as files: safetensors with a card beside them, and the pair that ships."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load, save_file

from pacore.errors import ConfigError
from pacore.training.miniature import locks
from pacore.training.miniature.transformer import Transformer, TransformerShape

BASE, TRAINED = "base", "trained"


def new_model(**shape: int) -> Transformer:
    """A model over the task's vocabulary, its weights still random."""
    vocabulary = len(locks.VOCABULARY)
    return Transformer(TransformerShape(vocabulary=vocabulary, outputs=vocabulary, **shape))


def save_model(model: Transformer, path: Path) -> None:
    """Write a model's weights."""
    save_file(model.state_dict(), path, metadata={"format": "pt"})


def load_model(path: Path) -> Transformer:
    """Read a model's weights. Raises ConfigError for a file that holds others."""
    try:
        return _filled(path.read_bytes(), str(path))
    except OSError as error:
        raise ConfigError(f"cannot read the model {path}: {error.strerror}") from error


def shipped_model(name: str) -> Transformer:
    """The model that ships with pacore: ``base``, or ``trained`` from it."""
    file = files("pacore.training.miniature").joinpath("models", f"{name}.safetensors")
    return _filled(file.read_bytes(), name)


def _filled(content: bytes, place: str) -> Transformer:
    model = new_model()
    try:
        model.load_state_dict(load(content))
    except (SafetensorError, RuntimeError) as error:
        raise ConfigError(f"{place} holds no weights of the miniature model: {error}") from error
    return model.eval()
