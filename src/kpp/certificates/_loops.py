"""Compiled loops of the leafwise certificate. Every array is checked before it comes here.

C(v) is the path sum of the squared coordinates below the root, so that two leaves a and l with
lowest common ancestor u lie :math:`C(a) + C(l) - 2 C(u)` apart. `value` is what a leaf adds to
the margin. No tree's table is larger than the tree; nothing here allocates per row.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from kpp._compile import compiled, loop_helper, loop_tuple
from kpp._typing import FloatArray
from kpp.forest.nodes import largest_tree


@loop_tuple("f8; out f8[]; out f8[]; out f8[]")
class Minima(NamedTuple):
    """The least ``distance + mu * value`` seen from every leaf, at one mu; see `leaf_minima`."""

    mu: float
    below: FloatArray
    best: FloatArray
    arg_value: FloatArray


@loop_tuple("in f8[]; in f8[,]; in f8[]; in f8[]")
class Terms(NamedTuple):
    """Linear terms: coefficients, coordinates of all rows, and the ends of their ranges."""

    coef: FloatArray
    values: FloatArray
    least: FloatArray
    most: FloatArray


@loop_helper
def least_of_terms(coef: Any, values: Any, least: Any, most: Any, row: Any, mu: Any) -> Any:
    """Sum over the terms of the least ``d^2 + mu coef d``, and of ``coef d`` there.

    d is how far a coordinate moves within its range: its parabola has its foot at -mu coef / 2, or
    is least at the nearer end.
    """
    total = 0.0
    change = 0.0
    for k in range(coef.size):
        step = -0.5 * mu * coef[k]
        if step < least[k] - values[row, k]:
            step = least[k] - values[row, k]
        if step > most[k] - values[row, k]:
            step = most[k] - values[row, k]
        total += step * step + mu * (coef[k] * step)
        change += coef[k] * step
    return total, change


# Plain arrays, not tuples: a certificate calls it hundreds of times, for some trees each, and
# taking the node arrays out of their tuple would take several microseconds of each call.
@compiled(
    "in i8[]; in i4[]; in i4[]; in f8[]; in f8[]; f8; out f8[]; out f8[]; out f8[]; i8; i8; "
    "out i4[]"
)
def leaf_minima(
    tree_offsets: Any,
    parent: Any,
    left: Any,
    C: Any,
    value: Any,
    mu: Any,
    below: Any,
    best: Any,
    arg_value: Any,
    first_tree: Any,
    last_tree: Any,
    arg: Any,
) -> None:
    """For each leaf a, ``best[a] = min over leaves l of distance(a, l) + mu * value[l]``.

    It fills the arrays of a `Minima`. Backward, ``below[v] = min over the leaves l below v of
    C(l) + mu value[l]``. Forward, `best` of an inner node v is the least
    ``C(l) + mu value[l] - 2 C(lca)`` over the leaves outside v: the sibling's, or what the parent
    already has. `arg` is the leaf that attains it, `arg_value` that leaf's value.
    """
    below_arg = np.empty(largest_tree(tree_offsets, first_tree, last_tree), np.int32)
    for tree in range(first_tree, last_tree):
        root = tree_offsets[tree]
        end = tree_offsets[tree + 1]
        for v in range(root, end):
            if left[v] < 0:
                below[v] = C[v] + mu * value[v]
                below_arg[v - root] = v
        # Backward over pairs of siblings: both are complete before their parent. M(v) of the page
        # on certificates.
        for v in range(end - 2, root, -2):
            up = parent[v]
            least = v if below[v] <= below[v + 1] else v + 1
            below[up] = below[least]
            below_arg[up - root] = below_arg[least - root]
        # Forward: H(child) = min(H(v), M(sibling) - 2 C(v)), kept in `best` until the leaves are
        # reached. No leaf lies outside the root.
        best[root] = np.inf
        arg[root] = root
        for v in range(root + 1, end):
            up = parent[v]
            beside = v + 1 if (v - root) % 2 == 1 else v - 1
            across = below[beside] - 2.0 * C[up]
            if across < best[up]:
                best[v] = across
                arg[v] = below_arg[beside - root]
            else:
                best[v] = best[up]
                arg[v] = arg[up]
        for v in range(root, end):
            if left[v] < 0:
                # min(C(a) + H(a), mu v(a)): go elsewhere, or stay at distance 0. A tie stays.
                stay = mu * value[v]
                best[v] += C[v]
                if stay <= best[v]:
                    best[v] = stay
                    arg[v] = v
                arg_value[v] = value[arg[v]]


@compiled("in i4[,]; in i8[]; Minima; Terms; in f8[]; i8; i8; out f8[]; out f8[]")
def sum_minima(
    leaf_ids: Any,
    rows: Any,
    minima: Any,
    terms: Any,
    offset: Any,
    first: Any,
    last: Any,
    bound: Any,
    slope: Any,
) -> None:
    """D(mu) of some rows and its slope, which is the margin of the minimising leaves.

    What the linear terms add at the row itself is in its offset.
    """
    mu, best, arg_value = minima.mu, minima.best, minima.arg_value
    coef, values, least, most = terms.coef, terms.values, terms.least, terms.most
    for i in range(first, last):
        row = rows[i]
        total, margin = least_of_terms(coef, values, least, most, row, mu)
        for tree in range(leaf_ids.shape[0]):
            leaf = leaf_ids[tree, row]
            total += best[leaf]
            margin += arg_value[leaf]
        # The derivative of mu o + sum_t [delta_t + mu v_t] by mu, at the leaves that attain the
        # minima.
        slope[i] = margin + offset[i]
        bound[i] = total + mu * offset[i]


# Two ends, each with its tables, three results and the errors of rounding: none can go.
@compiled(
    "in i4[,]; in i8[]; in i8[]; in i4[]; in i4[]; in f8[]; in f8[]; in f8[]; Minima; Minima; "
    "Terms; f8; f8; i8; i8; i8; out f8[]; out f8[]; out f8[]"
)
def tangent_steps(
    leaf_ids: Any,
    rows: Any,
    tree_offsets: Any,
    parent: Any,
    left: Any,
    C: Any,
    value: Any,
    offset: Any,
    low_end: Any,
    high_end: Any,
    terms: Any,
    constant_error: Any,
    error_per_mu: Any,
    max_steps: Any,
    first: Any,
    last: Any,
    safe_bound: Any,
    best_mu: Any,
    flip_mu: Any,
) -> None:
    """Climb to the top of D between two ends whose slopes are positive and not positive.

    D is concave, and piecewise linear but for linear terms, so the tangents at both ends meet above
    it; D there is either on them, and the top is found, or gives a nearer end. A tree's term at a
    mu between is bounded below by the chord of its ends: only subtrees whose chord lies below the
    best leaf so far are searched. The result is ``max of D(mu) - constant_error - mu *
    error_per_mu``, the mu that gave it, and the least mu whose leaves flip the answer.
    """
    mu_low, below_low, best_low = low_end.mu, low_end.below, low_end.best
    mu_high, below_high, best_high = high_end.mu, high_end.below, high_end.best
    value_low, value_high = low_end.arg_value, high_end.arg_value
    coef, values, term_least, term_most = terms.coef, terms.values, terms.least, terms.most
    n_trees = leaf_ids.shape[0]
    stack = np.empty(1024, np.int64)
    for i in range(first, last):
        row = rows[i]
        low = mu_low
        high = mu_high
        bound_low, slope_low = least_of_terms(coef, values, term_least, term_most, row, low)
        bound_high, slope_high = least_of_terms(coef, values, term_least, term_most, row, high)
        bound_low += low * offset[i]
        slope_low += offset[i]
        bound_high += high * offset[i]
        slope_high += offset[i]
        for tree in range(n_trees):
            leaf = leaf_ids[tree, row]
            bound_low += best_low[leaf]
            slope_low += value_low[leaf]
            bound_high += best_high[leaf]
            slope_high += value_high[leaf]
        # Every mu gives a certified radius: the best one seen so far is kept, less its rounding.
        safe = bound_low - constant_error - low * error_per_mu
        best = low
        other = bound_high - constant_error - high * error_per_mu
        if other > safe:
            safe = other
            best = high
        for _ in range(max_steps):
            # No top between the ends: it is an end, or lies outside.
            if not (slope_low > 0.0 >= slope_high):
                break
            # Where the tangents c_low + slope_low mu and c_high + slope_high mu meet.
            mu = ((bound_high - slope_high * high) - (bound_low - slope_low * low)) / (
                slope_low - slope_high
            )
            # Rounding has brought the ends together: no mu is left between them.
            if not (low < mu < high):
                break
            total, slope = least_of_terms(coef, values, term_least, term_most, row, mu)
            total += mu * offset[i]
            slope += offset[i]
            part = (mu - mu_low) / (mu_high - mu_low)
            for tree in range(n_trees):
                leaf = leaf_ids[tree, row]
                # The minimising leaves of both ends, at this mu.
                least = best_low[leaf] + (mu - mu_low) * value_low[leaf]
                change = value_low[leaf]
                right = best_high[leaf] + (mu - mu_high) * value_high[leaf]
                if right < least:
                    least = right
                    change = value_high[leaf]
                # The term of a tree is concave in mu. With equal slopes at both ends it is a line
                # between them, and its value is known; only otherwise another leaf may be the least
                # one here.
                if value_low[leaf] != value_high[leaf]:
                    v = np.int64(leaf)
                    root = tree_offsets[tree]
                    if mu * value[v] < least:
                        least = mu * value[v]
                        change = value[v]
                    # All other leaves of the tree, by the ancestor where their path leaves this
                    # one: such a leaf l lies C(leaf) + C(l) - 2 C(up) away.
                    while v != root:
                        up = np.int64(parent[v])
                        shift = C[leaf] - 2.0 * C[up]
                        stack[0] = v + 1 if (v - root) % 2 == 1 else v - 1
                        n_open = 1
                        while n_open > 0:
                            n_open -= 1
                            u = stack[n_open]
                            # M(u) is concave in mu too, so it lies above the chord between its
                            # ends.
                            chord = below_low[u] + part * (below_high[u] - below_low[u])
                            if chord + shift >= least:
                                continue
                            child = np.int64(left[u])
                            if child < 0:
                                here = C[u] + mu * value[u] + shift
                                if here < least:
                                    least = here
                                    change = value[u]
                            else:
                                stack[n_open] = child
                                stack[n_open + 1] = child + 1
                                n_open += 2
                                if n_open + 2 > stack.size:
                                    longer = np.empty(2 * stack.size, np.int64)
                                    longer[:n_open] = stack[:n_open]
                                    stack = longer
                        v = up
                total += least
                slope += change
            safe_here = total - constant_error - mu * error_per_mu
            if safe_here > safe:
                safe = safe_here
                best = mu
            # D meets the tangents where they meet: no mu can give more. Otherwise this mu is a
            # nearer end.
            ceiling = bound_low + slope_low * (mu - low)
            if slope > 0.0:
                low = mu
                bound_low = total
                slope_low = slope
            else:
                high = mu
                bound_high = total
                slope_high = slope
            if total >= ceiling - 1e-14 * abs(ceiling):
                break
        safe_bound[i] = safe
        best_mu[i] = best
        flip_mu[i] = high if slope_high <= 0.0 else np.inf


@compiled("in i4[]; Nodes; in f8[]; in f8[]; f8; out i4[]")
def minimising_leaves(leaves: Any, nodes: Any, C: Any, value: Any, mu: Any, arg: Any) -> None:
    """For one row, the leaf of each tree that attains ``min of distance + mu * value``."""
    tree_offsets, parent, left = nodes.tree_offsets, nodes.parent, nodes.left
    largest = largest_tree(tree_offsets, 0, tree_offsets.size - 1)
    distance = np.empty(largest)
    on_path = np.empty(largest, np.bool_)
    for tree in range(tree_offsets.size - 1):
        root = tree_offsets[tree]
        end = tree_offsets[tree + 1]
        on_path[: end - root] = False
        # Distances from the row's leaf: up its path C falls by the edges climbed, and below a node
        # that is off the path the edges down are added. Parents come before children.
        v = np.int64(leaves[tree])
        while v >= 0:
            on_path[v - root] = True
            distance[v - root] = C[leaves[tree]] - C[v]
            v = np.int64(parent[v])
        arg[tree] = leaves[tree]
        least = mu * value[leaves[tree]]
        for u in range(root + 1, end):
            if not on_path[u - root]:
                up = parent[u]
                distance[u - root] = distance[up - root] + (C[u] - C[up])
                if left[u] < 0:
                    here = distance[u - root] + mu * value[u]
                    if here < least:
                        least = here
                        arg[tree] = u
