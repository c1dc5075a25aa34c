"""Component 2: projections against least squares, the guide's loop and each other."""

import pytest
import torch
import torch.nn.functional as F

from causalnb import sci
from causalnb.sci import guide
from tests.unit.sci.tiny import check_gradients, same_gradients

B, T, K, D = 3, 7, 5, 8
pytestmark = pytest.mark.usefixtures("double")


def cosines(content, structure):
    return (F.normalize(content, dim=-1) @ F.normalize(structure, dim=-1).transpose(1, 2)).abs().max()


@pytest.mark.parametrize("method, tolerance", [("qr", 1e-10), ("gram", 1e-4)])
def test_projection_is_the_residual_of_least_squares(method, tolerance):
    content, structure = torch.randn(B, T, D), torch.randn(B, K, D)
    spanned = torch.linalg.lstsq(structure.transpose(1, 2), content.transpose(1, 2)).solution  # (B, K, T)
    expected = content - spanned.transpose(1, 2) @ structure
    found = sci.OrthogonalProjector(D, method)(content, structure)
    torch.testing.assert_close(found, expected, rtol=0, atol=tolerance)
    again = sci.OrthogonalProjector(D, method)(found, structure)
    torch.testing.assert_close(again, found, rtol=0, atol=tolerance)


def test_gram_tends_to_qr_as_its_ridge_vanishes():
    content, structure = torch.randn(B, T, D), torch.randn(B, K, D)
    exact = sci.OrthogonalProjector(D, "qr")(content, structure)
    errors = [
        (sci.OrthogonalProjector(D, "gram", eps)(content, structure) - exact).abs().max().item()
        for eps in (1e-2, 1e-4, 1e-13)
    ]
    assert errors[0] > errors[1] > errors[2] and errors[2] < 1e-10


def test_sequential_is_the_guides_loop_row_by_row_and_leaves_a_residue():
    content, structure = torch.randn(B, T, D), torch.randn(B, K, D)
    ours, literal = sci.OrthogonalProjector(D, "sequential"), guide.OrthogonalProjector(D)
    found = ours(content, structure)
    for row in range(B):  # alone in its batch, the guide's axes do meet
        one = slice(row, row + 1)
        torch.testing.assert_close(found[one], literal(content[one], structure[one]), rtol=0, atol=1e-10)
    with pytest.raises(RuntimeError):
        literal(content, structure)
    assert cosines(found, structure) > 0.05
    assert cosines(sci.OrthogonalProjector(D, "qr")(content, structure), structure) < 1e-10
    assert cosines(sci.OrthogonalProjector(D)(content, structure), structure) < 1e-4


def test_the_guides_projector_mixes_rows_when_tokens_equal_the_batch():
    content, structure, literal = torch.randn(B, B, D), torch.randn(B, K, D), guide.OrthogonalProjector(D)
    other = torch.cat([structure[:1], torch.randn(B - 1, K, D)])
    assert (literal(content, structure) - literal(content, other))[0].abs().max() > 0.1
    ours = sci.OrthogonalProjector(D)
    torch.testing.assert_close(ours(content, structure)[0], ours(content, other)[0], rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", ["coincide", "nearly coincide", "one is zero"])
def test_gram_bears_slots_that_do_not_span_with_their_gradients(kind):
    structure, content = (
        torch.randn(B, 1, D) + 1e-9 * torch.randn(B, K, D) * (kind == "nearly coincide"),
        torch.randn(B, T, D),
    )
    structure = (
        torch.cat([torch.randn(B, K - 1, D), torch.zeros(B, 1, D)], 1) if kind == "one is zero" else structure
    )
    structure = structure.expand(B, -1, D).repeat(1, 2, 1).requires_grad_()
    found = sci.OrthogonalProjector(D)(content, structure)
    found.square().sum().backward()
    assert structure.grad.isfinite().all() and found.isfinite().all()
    assert cosines(found.detach(), structure.detach()) < 1e-3


@pytest.mark.parametrize("method", ["gram", "sequential"])
def test_slots_that_are_all_zero_change_nothing(method):
    content, structure = torch.randn(B, T, D), torch.zeros(B, K, D, requires_grad=True)
    found = sci.OrthogonalProjector(D, method)(content, structure)
    found.square().sum().backward()
    assert torch.equal(found, content) and structure.grad.isfinite().all()


@pytest.mark.parametrize("kind", ["zero", "coincide"])
def test_qr_takes_out_what_dependent_slots_do_not_span(kind):
    content = torch.randn(B, T, D)
    structure = torch.zeros(B, K, D) if kind == "zero" else torch.randn(B, 1, D).expand(B, K, D)
    found = sci.OrthogonalProjector(D, "qr")(content, structure)
    assert torch.linalg.matrix_rank(found[0]) == D - K  # of K directions, whatever the slots span
    assert torch.linalg.matrix_rank(sci.OrthogonalProjector(D)(content, structure)[0]) >= D - 1


@pytest.mark.parametrize("method", sci.content.PROJECTIONS)
def test_gradients(method):
    content, structure = torch.randn(B, T, D), torch.randn(B, K, D)
    assert check_gradients(sci.OrthogonalProjector(D, method), content, structure)
    assert check_gradients(sci.ContentEncoder(D, "project", method), content, structure)


@pytest.mark.parametrize("method", ["gram", "qr"])
def test_half_precision_and_autocast_compute_wide_and_give_back_their_own_type(method):
    content, structure = torch.randn(B, T, D).bfloat16(), torch.randn(B, K, D).bfloat16()
    projector = sci.OrthogonalProjector(D, method)
    expected = projector(content.float(), structure.float())
    with torch.autocast("cpu", torch.bfloat16):
        inside = projector(content, structure)
    for found in (projector(content, structure), inside):
        assert found.dtype == torch.bfloat16
        assert torch.equal(found, expected.bfloat16())


def test_the_encoder_is_the_guides_on_shared_embeddings():
    literal, ours = guide.ContentEncoder(D, 11), sci.ContentEncoder(D, "project", "sequential")
    ours.content_refiner.load_state_dict(literal.content_refiner.state_dict())
    ids, structure = torch.randint(11, (1, T)), torch.randn(1, K, D)
    torch.testing.assert_close(
        ours(literal.content_embedding(ids), structure), literal(ids, structure), rtol=0, atol=1e-10
    )
    same_gradients(ours.content_refiner, literal.content_refiner, torch.randn(B, T, D))
    assert sum(p.numel() for p in ours.parameters()) == sum(p.numel() for p in literal.parameters()) - 11 * D


def test_without_projection_a_word_is_the_same_in_every_sentence():
    encoder, x = sci.ContentEncoder(D, ortho="none"), torch.randn(B, T, D)
    one, other = encoder(x, torch.randn(B, K, D)), encoder(x, torch.randn(B, K, D))
    assert torch.equal(one, other)
    assert torch.equal(one, sci.ContentEncoder.forward(encoder, x))
    projecting = sci.ContentEncoder(D)
    assert (projecting(x, torch.randn(B, K, D)) - projecting(x, torch.randn(B, K, D))).abs().max() > 0.1
    assert torch.equal(projecting(x), projecting.content_refiner(x))


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="method 'svd' is unknown: choose one of gram, qr, sequential"):
        sci.OrthogonalProjector(D, "svd")
    with pytest.raises(ValueError, match="ortho is 'loss': choose 'project' or 'none'"):
        sci.ContentEncoder(D, "loss")
    projector = sci.OrthogonalProjector(D)
    with pytest.raises(
        ValueError, match="width 8 and slots of width 9 do not both have the projector's width 8"
    ):
        projector(torch.randn(B, T, D), torch.randn(B, K, D + 1))
    with pytest.raises(ValueError, match="width 9 and slots of width 8"):
        projector(torch.randn(B, T, D + 1), torch.randn(B, K, D))
    with pytest.raises(ValueError, match="content has 3 rows and structure 2: pass one batch"):
        projector(torch.randn(B, T, D), torch.randn(2, K, D))
