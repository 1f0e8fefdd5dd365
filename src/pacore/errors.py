"""The one tree of errors. Each says what was wrong, shows the value, and says what to do.

``EndpointError`` and below describe one call; the sampler that made the call raises them, and the
dispatcher decides which are tried again. Everything else reaches the user.
"""

from __future__ import annotations

from collections.abc import Iterable


class PacoreError(Exception):
    """Base of every error that pacore raises on purpose."""


class ConfigError(PacoreError):
    """A setting, argument or file of settings is wrong; nothing was sent."""


class ProblemError(PacoreError):
    """A problem record cannot be read; names the place and the value."""


class JournalError(PacoreError):
    """A run directory or trace cannot be used as it is."""


class MissingExtraError(PacoreError):
    """An optional dependency is not installed."""

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(
            f"{feature} needs the extra {extra!r}: pip install 'pacore[{extra}]', "
            f"or '.[{extra}]' in its source folder"
        )


class SandboxError(PacoreError):
    """Programs cannot be run in a sandbox here; names each way that was tried and why it failed."""


class EngineError(PacoreError):
    """The embedded engine or its model could not be had or started."""


class TrainingError(PacoreError):
    """Training cannot go on: a loss that is no number, no memory, a checkpoint that does not fit.

    The last checkpoint is as it was.
    """


class BudgetExhaustedError(PacoreError):
    """What is left of a token or money budget does not pay for one more call."""


class EndpointError(PacoreError):
    """A call to an endpoint failed.

    ``status`` is the HTTP status or ``None`` where no answer came; ``generated_tokens`` estimates what
    had been generated, and will be billed, before the failure.
    """

    def __init__(self, message: str, *, status: int | None = None, generated_tokens: int = 0) -> None:
        super().__init__(message)
        self.status = status
        self.generated_tokens = generated_tokens


class EndpointRefusedError(EndpointError):
    """The endpoint refuses this user or model (401, 402, 403, 404) or cannot be reached at all.

    No later call can fare better, so it ends the whole run.
    """


class TransientError(EndpointError):
    """A failure that another attempt may not meet: 408, 409, 425, 429, 5xx, a cut or silent stream.

    ``retry_after`` is the endpoint's own wish in seconds, where it stated one.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        retry_after: float | None = None,
        generated_tokens: int = 0,
    ) -> None:
        super().__init__(message, status=status, generated_tokens=generated_tokens)
        self.retry_after = retry_after


class CallRejectedError(EndpointError):
    """The endpoint rejects this request (another 4xx); sending it again would not help."""


class ContextOverflowError(CallRejectedError):
    """Prompt and answer do not fit the model's window.

    ``window`` and ``prompt_tokens`` are in tokens, read from the endpoint's own words; ``None`` where
    it did not say.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        window: int | None = None,
        prompt_tokens: int | None = None,
    ) -> None:
        super().__init__(message, status=status)
        self.window = window
        self.prompt_tokens = prompt_tokens


def cause_of(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The failure to tell of: one of ours before any other."""
    leaves = list(_leaves(group))
    return next((leaf for leaf in leaves if isinstance(leaf, PacoreError)), leaves[0])


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterable[BaseException]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)
        else:
            yield error
