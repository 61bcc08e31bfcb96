"""The built module against the definition in plain Python: run by `kernel-build test`."""

import kernelworks
import pytest
import torch


@pytest.fixture(scope="session")
def kernel():
    return kernelworks.get_kernel("__REPO_ID__", backend="cpu", trust_remote_code=True)


def reference(tokens, size):
    """Tokens that complete an n-gram of `tokens` that is there already."""
    ngrams = {tuple(tokens[i : i + size]) for i in range(len(tokens) - size + 1)}
    tail = tuple(tokens[len(tokens) - size + 1 :])
    return sorted({ngram[-1] for ngram in ngrams if ngram[:-1] == tail})


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_banned_is_the_definition_after_every_step(kernel, size):
    tokens = torch.randint(3, (4, 60), generator=torch.Generator().manual_seed(0))
    blocker = kernel.NgramBlocker(batch=4, size=size)
    for step in range(tokens.shape[1]):
        blocker.extend(tokens[:, step : step + 1])
        assert blocker.banned() == [reference(row.tolist(), size) for row in tokens[:, : step + 1]]


def test_a_prompt_counts_as_its_tokens_one_by_one_in_any_memory_layout(kernel):
    tokens = torch.randint(3, (40, 2), generator=torch.Generator().manual_seed(1)).t()
    blocker = kernel.NgramBlocker(2, 3)
    blocker.extend(tokens)
    assert blocker.banned() == [reference(row.tolist(), 3) for row in tokens]


def test_there_is_nothing_to_repeat_at_the_start(kernel):
    blocker = kernel.NgramBlocker(2, 3)
    assert blocker.banned() == [[], []]
    blocker.extend(torch.empty(2, 0, dtype=torch.int64))
    blocker.extend(torch.tensor([[5], [5]]))
    assert blocker.banned() == [[], []]
    kernel.NgramBlocker(0, 3).extend(torch.empty(0, 4, dtype=torch.int64))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("view", [lambda x: x, lambda x: x.t().contiguous().t()], ids=["dense", "transposed"])
def test_masked_logits_are_minus_infinity_where_banned_and_as_before_elsewhere(kernel, dtype, view):
    blocker = kernel.NgramBlocker(2, 2)
    blocker.extend(torch.tensor([[1, 2, 1, 3, 1], [4, 4, 0, 0, 2]]))
    before = torch.randn(2, 6, generator=torch.Generator().manual_seed(0)).to(dtype)
    logits = view(before.clone())
    assert blocker.mask_(logits) is logits
    banned = torch.tensor([[0, 0, 1, 1, 0, 0], [0, 0, 0, 0, 0, 0]], dtype=torch.bool)
    torch.testing.assert_close(logits, before.masked_fill(banned, -torch.inf), rtol=0, atol=0)


def test_two_blockers_know_nothing_of_each_other(kernel):
    one, other = kernel.NgramBlocker(1, 1), kernel.NgramBlocker(1, 1)
    one.extend(torch.tensor([[7]]))
    assert (one.banned(), other.banned()) == ([[7]], [[]])


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda kind: kind(-1, 2), ValueError, "`batch` must not be negative"),
        (lambda kind: kind(1, 0), ValueError, "`size` must be at least 1"),
        (lambda kind: kind(2, 2).extend(torch.ones(3, 1, dtype=torch.int64)), ValueError, "must have shape"),
        (lambda kind: kind(2, 2).extend(torch.ones(2, 1)), TypeError, "must be int64"),
        (lambda kind: kind(2, 2).mask_(torch.ones(2)), ValueError, "must have shape"),
        (lambda kind: kind(2, 2).mask_(torch.ones(2, 5, dtype=torch.int64)), TypeError, "must be floating point"),
    ],
)
def test_a_wrong_argument_is_refused_with_the_rule(kernel, call, error, message):
    with pytest.raises(error, match=message):
        call(kernel.NgramBlocker)
