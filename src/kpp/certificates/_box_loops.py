"""Compiled loops of the raw-input certificate. Every array is checked before it comes here.

A box is an interval ``[low[j], high[j]]`` per column. It reaches the left child of a split on j
iff ``low[j] <= threshold`` and the right one iff ``high[j] > threshold``. A missing value stays
missing and takes its branch; a category stays what it is, unless its column is free.

An oblique split compares the least and the greatest sum over the box in the same way; see
`sum_reaches`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kpp._compile import compiled, loop_helper
from kpp.forest.nodes import (
    category_goes_left,
    is_categorical,
    is_oblique,
    least_sum,
    misses_a_term,
)


@loop_helper
def sum_reaches(
    term_offsets: Any,
    term_columns: Any,
    term_weights: Any,
    v: Any,
    low: Any,
    high: Any,
    threshold: Any,
) -> Any:
    """Whether a box without missing values reaches the left and the right child of node v.

    The least and the greatest sum are those at two corners, computed as the forest computes them:
    products and sums of floats are monotone after rounding too, so that no point of the box has a
    sum below the one or above the other. Nothing has to be rounded outward.

    Only opposite infinities break this: their sum is NaN, and goes where missing values go. For
    such a point a partial sum and the next term are infinite, of opposite signs. The greatest
    partial sum or term is then +inf, and the greatest sum +inf or NaN; likewise the least sum is
    -inf or NaN. Such boxes reach both.
    """
    least = least_sum(term_offsets, term_columns, term_weights, v, low, high)
    most = least_sum(term_offsets, term_columns, term_weights, v, high, low)
    if not (least > -np.inf) and not (most < np.inf):
        return True, True
    return not (least > threshold), not (most <= threshold)


@compiled("Nodes; in b1[]; in f8[]; in f8[]; in f8[]; in f8[]; in f8[]; in f8[]; in f8[]; out f8[]")
def box_minima(
    nodes: Any,
    is_free: Any,
    least_below: Any,
    value: Any,
    x: Any,
    low: Any,
    high: Any,
    floor: Any,
    ceiling: Any,
    minimum: Any,
) -> None:
    """Least value of a leaf that the box reaches, in each tree.

    `least_below` is the least value of a leaf below each node: subtrees that cannot improve on
    what was found are left out. `floor` and `ceiling` are the same of a larger and of a smaller
    box, or what bounds them: a tree is searched only as far as they leave it open.
    """
    tree_offsets, left = nodes.tree_offsets, nodes.left
    feature, threshold = nodes.feature, nodes.threshold
    missing_left = nodes.missing_left
    category_offsets, category_bits = nodes.category_offsets, nodes.category_bits
    has_categories = category_offsets.size > 0
    term_offsets, term_columns = nodes.term_offsets, nodes.term_columns
    term_weights = nodes.term_weights
    has_sums = term_offsets.size > 0
    stack = np.empty(256, np.int64)
    for tree in range(tree_offsets.size - 1):
        stack[0] = tree_offsets[tree]
        n_open = 1
        # A smaller box reaches this already.
        least = ceiling[tree]
        while n_open > 0 and least > floor[tree]:
            n_open -= 1
            v = stack[n_open]
            # Nothing below improves on what was found. What gets past this at a leaf is a new least
            # value.
            if least_below[v] >= least:
                continue
            child = np.int64(left[v])
            if child < 0:
                least = value[v]
                continue
            j = np.int64(feature[v])
            reach_left = True
            reach_right = True
            if has_categories and is_categorical(category_offsets, v):
                if not is_free[j]:
                    reach_left = (
                        missing_left[v]
                        if np.isnan(x[j])
                        else category_goes_left(category_offsets, category_bits, v, x[j])
                    )
                    reach_right = not reach_left
            elif has_sums and is_oblique(term_offsets, v):
                if misses_a_term(term_offsets, term_columns, v, x):
                    reach_left = missing_left[v]
                    reach_right = not reach_left
                else:
                    reach_left, reach_right = sum_reaches(
                        term_offsets, term_columns, term_weights, v, low, high, threshold[v]
                    )
            elif np.isnan(x[j]):
                reach_left = missing_left[v]
                reach_right = not reach_left
            else:
                reach_left = low[j] <= threshold[v]
                reach_right = high[j] > threshold[v]
            if n_open + 2 > stack.size:
                longer = np.empty(2 * stack.size, np.int64)
                longer[:n_open] = stack[:n_open]
                stack = longer
            # The more promising child comes off the stack first.
            first = child if least_below[child] > least_below[child + 1] else child + 1
            second = 2 * child + 1 - first
            for u in (first, second):
                if (u == child and reach_left) or (u != child and reach_right):
                    stack[n_open] = u
                    n_open += 1
        minimum[tree] = least


# A search: the trees, the box, where to stop, and the best point with its cost.
@compiled(
    "in i8[]; Nodes; in b1[]; in f8[]; in f8[]; in f8[]; in f8[]; in f8[]; in f8[]; f8; i8; "
    "out f8[]; out f8[]; out f8[]; out i8[]"
)
def joint_minimum(
    trees: Any,
    nodes: Any,
    is_free: Any,
    least_below: Any,
    value: Any,
    x: Any,
    start_low: Any,
    start_high: Any,
    rest: Any,
    stop_below: Any,
    max_visits: Any,
    best: Any,
    best_low: Any,
    best_high: Any,
    visits: Any,
) -> None:
    """Least sum of leaf values over the given trees that one point of the box can reach.

    Depth first through the trees in order; each split that both sides of the current box reach
    cuts the box in two. A branch whose sum, with the least that the trees after it can add
    (`rest`, one entry per tree and a 0), does not improve on `best` is left out. The caller sets
    `best` to what is of interest; it becomes the least sum below that, with the part of the box
    that attains it. The search ends when a sum below `stop_below` is found, or after
    `max_visits` nodes, which ``visits[0] > max_visits`` tells.
    """
    tree_offsets, left = nodes.tree_offsets, nodes.left
    feature, threshold = nodes.feature, nodes.threshold
    missing_left = nodes.missing_left
    category_offsets, category_bits = nodes.category_offsets, nodes.category_bits
    has_categories = category_offsets.size > 0
    term_offsets, term_columns = nodes.term_offsets, nodes.term_columns
    term_weights = nodes.term_weights
    has_sums = term_offsets.size > 0
    n_trees = trees.size
    low = start_low.copy()
    high = start_high.copy()
    # Alternatives that were put off, and the bounds of the box that were changed since.
    size = 1024
    later_node = np.empty(size, np.int64)
    later_tree = np.empty(size, np.int64)
    later_sum = np.empty(size)
    later_trail = np.empty(size, np.int64)
    later_bound = np.empty(size)  # the bound that the alternative puts on its split's column
    later_side = np.empty(size, np.int64)  # 0 none, 1 from below, 2 from above
    later_column = np.empty(size, np.int64)
    trail_column = np.empty(size, np.int64)
    trail_is_low = np.empty(size, np.bool_)
    trail_value = np.empty(size)
    n_later = 0
    n_trail = 0
    visits[0] = 0
    v = np.int64(tree_offsets[trees[0]])
    k = 0
    total = 0.0
    alive = True
    while True:
        if not alive:
            if n_later == 0:
                return
            n_later -= 1
            # Undo, last first, the bounds that were changed since this alternative was put off.
            while n_trail > later_trail[n_later]:
                n_trail -= 1
                if trail_is_low[n_trail]:
                    low[trail_column[n_trail]] = trail_value[n_trail]
                else:
                    high[trail_column[n_trail]] = trail_value[n_trail]
            v = later_node[n_later]
            k = later_tree[n_later]
            total = later_sum[n_later]
            side = later_side[n_later]
            if side > 0:
                j = later_column[n_later]
                trail_column[n_trail] = j
                trail_is_low[n_trail] = side == 1
                if side == 1:
                    trail_value[n_trail] = low[j]
                    low[j] = later_bound[n_later]
                else:
                    trail_value[n_trail] = high[j]
                    high[j] = later_bound[n_later]
                n_trail += 1
            alive = True
        visits[0] += 1
        if visits[0] > max_visits:
            return
        # The least that this branch can reach: what is fixed, the least leaf below v, and the least
        # of every tree after it. Not better than the best: left out.
        if total + least_below[v] + rest[k + 1] >= best[0]:
            alive = False
            continue
        child = np.int64(left[v])
        if child < 0:
            total += value[v]
            k += 1
            if k < n_trees:
                v = np.int64(tree_offsets[trees[k]])
                continue
            if total < best[0]:
                best[0] = total
                best_low[:] = low
                best_high[:] = high
                if total < stop_below:
                    return
            alive = False
            continue
        if n_later + 2 > size or n_trail + 4 > size:
            # Twice as long; the second half is overwritten before it is read.
            later_node = np.append(later_node, later_node)
            later_tree = np.append(later_tree, later_tree)
            later_sum = np.append(later_sum, later_sum)
            later_trail = np.append(later_trail, later_trail)
            later_bound = np.append(later_bound, later_bound)
            later_side = np.append(later_side, later_side)
            later_column = np.append(later_column, later_column)
            trail_column = np.append(trail_column, trail_column)
            trail_is_low = np.append(trail_is_low, trail_is_low)
            trail_value = np.append(trail_value, trail_value)
            size = later_node.size
        j = np.int64(feature[v])
        reach_left = True
        reach_right = True
        is_cut = False
        if has_categories and is_categorical(category_offsets, v):
            if not is_free[j]:
                reach_left = (
                    missing_left[v]
                    if np.isnan(x[j])
                    else category_goes_left(category_offsets, category_bits, v, x[j])
                )
                reach_right = not reach_left
        elif has_sums and is_oblique(term_offsets, v):
            # Both sides may be reached, and neither is a box: it stays as it is, which is sound.
            if misses_a_term(term_offsets, term_columns, v, x):
                reach_left = missing_left[v]
                reach_right = not reach_left
            else:
                reach_left, reach_right = sum_reaches(
                    term_offsets, term_columns, term_weights, v, low, high, threshold[v]
                )
        elif np.isnan(x[j]):
            reach_left = missing_left[v]
            reach_right = not reach_left
        else:
            reach_left = low[j] <= threshold[v]
            reach_right = high[j] > threshold[v]
            is_cut = reach_left and reach_right
        if not reach_right:
            v = child
            continue
        if not reach_left:
            v = child + 1
            continue
        # Both children are reached. The one with the lower leaf first: a low sum found early cuts
        # off more later.
        go_left = least_below[child] <= least_below[child + 1]
        later_node[n_later] = child + 1 if go_left else child
        later_tree[n_later] = k
        later_sum[n_later] = total
        later_trail[n_later] = n_trail
        later_side[n_later] = 0
        if is_cut:
            # x > t means, for doubles, x >= the next one after t. With that the box stays closed,
            # and the trees that follow see which side was taken.
            above = np.nextafter(threshold[v], np.inf)
            later_column[n_later] = j
            later_side[n_later] = 1 if go_left else 2
            later_bound[n_later] = above if go_left else threshold[v]
            trail_column[n_trail] = j
            trail_is_low[n_trail] = not go_left
            if go_left:
                trail_value[n_trail] = high[j]
                high[j] = threshold[v]
            else:
                trail_value[n_trail] = low[j]
                low[j] = above
            n_trail += 1
        n_later += 1
        v = child if go_left else child + 1


@compiled("Nodes; in f8[]; in f8[]; in f8[]; in f8[]; in i8[]; f8; i8; out f8[]; out f8[]")
def descend(
    nodes: Any,
    value: Any,
    x: Any,
    low: Any,
    high: Any,
    columns: Any,
    stop_below: Any,
    max_sweeps: Any,
    point: Any,
    total: Any,
) -> None:
    """Lower the sum of leaf values by moving one column at a time, within a box.

    Along one column the sum is a step function: every tree gives the leaves that it passes
    through from left to right, and the thresholds between them. The least step is taken, at its
    point nearest to x. The search ends when the sum falls below `stop_below`, or when no column
    helps.

    A tree stays in its leaf along every column that no split on the path of the point cuts within
    the box. For each tree these columns are known, and only along the others it is walked through:
    of many columns and small boxes that is a small part. Of an oblique split on the path whose sum
    lies on both sides of its threshold within the box every column counts.

    An oblique split has its threshold where the column makes up for the other terms. That place is
    rounded, so the point keeps off it by what rounding may be; the caller looks at the point
    itself.
    """
    tree_offsets, left = nodes.tree_offsets, nodes.left
    feature, threshold = nodes.feature, nodes.threshold
    missing_left = nodes.missing_left
    category_offsets, category_bits = nodes.category_offsets, nodes.category_bits
    has_categories = category_offsets.size > 0
    term_offsets, term_columns = nodes.term_offsets, nodes.term_columns
    term_weights = nodes.term_weights
    has_sums = term_offsets.size > 0
    n_trees = tree_offsets.size - 1
    stack = np.empty(256, np.int64)
    stack_low = np.empty(256)
    at = np.empty(4096)
    change = np.empty(4096)
    place = np.full(point.size, -1, np.int64)  # of a column that moves, among those that do
    for c in range(columns.size):
        place[columns[c]] = c
    here = np.empty(n_trees)  # what each tree gives at the point
    cuts = np.zeros((n_trees, columns.size), np.bool_)
    is_old = np.ones(n_trees, np.bool_)
    total[0] = np.inf
    for _ in range(max_sweeps):
        before = total[0]
        for c in range(columns.size):
            j = columns[c]
            n_events = 0
            first_total = 0.0
            guard = 0.0
            for tree in range(n_trees):
                if is_old[tree]:
                    # The point has moved since: along its path again.
                    is_old[tree] = False
                    cuts[tree, :] = False
                    v = np.int64(tree_offsets[tree])
                    while left[v] >= 0:
                        child = np.int64(left[v])
                        k = feature[v]
                        if has_sums and is_oblique(term_offsets, v):
                            t = threshold[v]
                            reach_left, reach_right = sum_reaches(
                                term_offsets, term_columns, term_weights, v, low, high, t
                            )
                            if reach_left and reach_right:
                                for e in range(term_offsets[v], term_offsets[v + 1]):
                                    if place[term_columns[e]] >= 0:
                                        cuts[tree, place[term_columns[e]]] = True
                            total_of = least_sum(
                                term_offsets, term_columns, term_weights, v, point, point
                            )
                            goes_left = missing_left[v] if np.isnan(total_of) else total_of <= t
                            v = child if goes_left else child + 1
                        elif np.isnan(point[k]):
                            v = child if missing_left[v] else child + 1
                        elif has_categories and is_categorical(category_offsets, v):
                            goes_left = category_goes_left(
                                category_offsets, category_bits, v, point[k]
                            )
                            v = child if goes_left else child + 1
                        else:
                            t = threshold[v]
                            if place[k] >= 0 and low[k] <= t < high[k]:
                                cuts[tree, place[k]] = True
                            v = child if point[k] <= t else child + 1
                    here[tree] = value[v]
                if not cuts[tree, c]:
                    first_total += here[tree]
                    continue
                stack[0] = tree_offsets[tree]
                stack_low[0] = -np.inf
                n_open = 1
                last = np.nan
                while n_open > 0:
                    n_open -= 1
                    v = stack[n_open]
                    begin = stack_low[n_open]
                    # Down to a leaf, to the left wherever column j allows it.
                    while left[v] >= 0:
                        child = np.int64(left[v])
                        k = feature[v]
                        # The children for smaller and for larger values of column j.
                        below = child
                        t = threshold[v]
                        if has_sums and is_oblique(term_offsets, v):
                            total_of = least_sum(
                                term_offsets, term_columns, term_weights, v, point, point
                            )
                            if np.isnan(total_of):
                                v = child if missing_left[v] else child + 1
                                continue
                            weight = 0.0
                            size = abs(t)
                            for e in range(term_offsets[v], term_offsets[v + 1]):
                                size += abs(term_weights[e] * point[term_columns[e]])
                                if term_columns[e] == j:
                                    weight = term_weights[e]
                            if weight == 0.0 or not np.isfinite(size):
                                v = child if total_of <= t else child + 1
                                continue
                            t = point[j] + (t - total_of) / weight
                            guard = max(guard, 16.0 * 2.0**-52 * (size / abs(weight) + abs(t)))
                            if weight < 0:
                                below = child + 1
                        elif np.isnan(point[k]):
                            v = child if missing_left[v] else child + 1
                            continue
                        elif has_categories and is_categorical(category_offsets, v):
                            goes_left = category_goes_left(
                                category_offsets, category_bits, v, point[k]
                            )
                            v = child if goes_left else child + 1
                            continue
                        elif k != j:
                            v = child if point[k] <= t else child + 1
                            continue
                        beyond = 2 * child + 1 - below
                        # The part of the box that is still to be covered, (begin, high], lies right
                        # of t.
                        if t < low[j] or t <= begin:
                            v = beyond
                            continue
                        if t < high[j]:
                            if n_open == stack.size:
                                longer = np.empty(2 * stack.size, np.int64)
                                longer[:n_open] = stack
                                stack = longer
                                longer_low = np.empty(stack.size)
                                longer_low[:n_open] = stack_low
                                stack_low = longer_low
                            # What lies right of t comes later, unless an outer split on the same
                            # column already ends before it.
                            if n_open == 0 or t < stack_low[n_open - 1]:
                                stack[n_open] = beyond
                                stack_low[n_open] = t
                                n_open += 1
                        v = below
                    if np.isnan(last):
                        first_total += value[v]
                    elif value[v] != last:
                        if n_events == at.size:
                            at = np.append(at, at)
                            change = np.append(change, change)
                        at[n_events] = begin
                        change[n_events] = value[v] - last
                        n_events += 1
                    last = value[v]
            # From left to right: each event is the place right of which a tree's value changes.
            order = np.argsort(at[:n_events])
            sum_here = first_total
            best = np.inf
            best_low = low[j]
            best_high = high[j]
            begin = low[j]
            for e in range(n_events + 1):
                end = high[j] if e == n_events else at[order[e]]
                # Two events at one place leave an empty step between them, which no point lies in.
                if end >= begin and sum_here < best:
                    best = sum_here
                    best_low = begin
                    best_high = end
                if e < n_events:
                    sum_here += change[order[e]]
                    begin = np.nextafter(end, np.inf)
            old = point[j]
            if guard > 0.0:
                # Off the ends that are thresholds, not off those of the box.
                inner_low = best_low if best_low == low[j] else best_low + guard
                inner_high = best_high if best_high == high[j] else best_high - guard
                if inner_low <= inner_high:
                    best_low = inner_low
                    best_high = inner_high
            point[j] = min(max(x[j], best_low), best_high)
            if point[j] != old:
                for tree in range(n_trees):
                    is_old[tree] = is_old[tree] or cuts[tree, c]
            total[0] = best
            if best < stop_below:
                return
        # A whole sweep without a gain: every further one would be the same.
        if not (total[0] < before):
            return
