"""Ask one question and look at how the answer came about."""

import pacore

result = pacore.solve_sync("How many positive divisors does 360 have?", schedule="4")
print(result.answer)
print(
    f"{result.status}: {result.ttc_tokens} tokens in {result.calls.made} calls, agreement {result.agreement}"
)
for warning in result.warnings:
    print(f"{warning.code}: {warning.text}")
