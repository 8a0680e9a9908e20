// The model in the page: the same routes and the same sums as in Python.
function unpack(text, Kind) {
  var bytes = atob(text), buffer = new Uint8Array(bytes.length);
  for (var i = 0; i < bytes.length; i++) { buffer[i] = bytes.charCodeAt(i); }
  return new Kind(buffer.buffer);
}

function readModel(written) {
  var K = written.n_scores;
  var forests = written.forests.map(function (own) {
    var feature = unpack(own.feature, { 1: Int8Array, 2: Int16Array, 4: Int32Array }[own.feature_bytes]), n = feature.length;
    var trees = unpack(own.trees, Int32Array), left = new Int32Array(n), place = new Int32Array(n);
    var splits = 0, leaves = 0, leavesBefore = [];
    // Level by level, siblings side by side: the children of the splits follow each other.
    for (var t = 0; t + 1 < trees.length; t++) {
      var child = trees[t] + 1;
      leavesBefore.push(leaves); // where the numbers of the folds begin
      for (var v = trees[t]; v < trees[t + 1]; v++) {
        if (feature[v] < 0) { place[v] = leaves++; continue; }
        left[v] = child;
        child += 2;
        place[v] = splits++;
      }
    }
    var forest = {
      feature: feature, left: left, place: place, trees: trees, single: own.single, reading: own.reading,
      threshold: unpack(own.threshold, own.single ? Float32Array : Float64Array),
      missingLeft: own.missing_left ? unpack(own.missing_left, Uint8Array) : null,
      step: own.adds.step, counts: unpack(own.adds.counts, Int32Array), size: n,
      leavesBefore: leavesBefore, missingValues: own.missing_values || []
    };
    if (own.words) {
      var words = unpack(own.words, Uint16Array), starts = new Int32Array(words.length + 1);
      words.forEach(function (many, i) { starts[i + 1] = starts[i] + many; });
      forest.words = starts;
      forest.bits = unpack(own.bits, Uint32Array);
    }
    return forest;
  });
  var folds = written.folds && {
    rank: written.folds.rank, starts: written.folds.starts, errors: unpack(written.folds.errors, Float64Array),
    folds: written.folds.folds.map(function (own) {
      return {
        intercept: own.intercept, linear: own.linear,
        trees: own.trees.map(function (part) {
          return { block: part.block, first: part.first, last: part.last, step: part.step, counts: unpack(part.counts, Int32Array) };
        }),
        spread: own.spread && { block: own.spread.block, first: own.spread.first, last: own.spread.last, floor: own.spread.floor, values: unpack(own.spread.values, Float32Array) }
      };
    })
  };
  var rows = unpack(written.rows, Float64Array), p = written.n_features, R = written.n_readings;
  return { written: written, forests: forests, folds: folds, rows: rows, n_rows: rows.length / p / R, K: K, p: p, R: R };
}

// The values of a row, once for every reading.
function rowOf(model, i) {
  var found = [];
  for (var r = 0; r < model.R; r++) {
    var from = (r * model.n_rows + i) * model.p;
    found.push(model.rows.slice(from, from + model.p));
  }
  return found;
}

// The leaf of a row in every tree, and what the nodes on the way add, by variable.
function walk(forest, values, variableOf, K, adds) {
  var row = forest.single ? Float32Array.from(values) : Float64Array.from(values), ids = new Int32Array(forest.trees.length - 1);
  forest.missingValues.forEach(function (own) {
    if (row[own[0]] >= own[1] && row[own[0]] <= own[2]) { row[own[0]] = NaN; }
  });
  for (var t = 0; t < ids.length; t++) {
    var v = forest.trees[t];
    while (forest.feature[v] >= 0) {
      var f = forest.feature[v], s = forest.place[v], x = row[f], right;
      if (x !== x) {
        right = forest.missingLeft && (forest.missingLeft[s >> 3] >> (s & 7)) & 1 ? 0 : 1;
      } else if (forest.words && forest.words[s + 1] > forest.words[s]) {
        var first = forest.words[s], many = forest.words[s + 1] - first, c = Math.trunc(x);
        right = x >= 0 && x < 32 * many ? 1 - ((forest.bits[first + (c >> 5)] >>> (c & 31)) & 1) : 1;
      } else { right = x <= forest.threshold[s] ? 0 : 1; }
      v = forest.left[v] + right;
      for (var k = 0; k < K; k++) { adds[variableOf[f]][k] += forest.step[k] * forest.counts[k * forest.size + v]; }
    }
    ids[t] = v;
  }
  return ids;
}

function coordinate(terms, k, x) {
  if (terms.is_missing[k]) { return x !== x ? terms.factor : 0; }
  return x !== x ? 0 : (Math.min(Math.max(x, terms.low[k]), terms.high[k]) - terms.mean[k]) * terms.slope[k];
}

// Scores, contributions by variable (centred), and the interval or set at the values of a row.
function evaluate(model, values, withoutRange) {
  var written = model.written, K = model.K;
  var adds = Array.from({ length: written.n_variables }, function () { return new Float64Array(K); });
  var ids = model.forests.map(function (forest) {
    return walk(forest, values[forest.reading], written.variable_of, K, adds);
  });
  written.linear.forEach(function (terms) {
    terms.column.forEach(function (column, i) {
      var own = coordinate(terms, i, values[0][column]);
      for (var k = 0; k < K; k++) { adds[written.variable_of[column]][k] += terms.coef[k][i] * own; }
    });
  });
  var scores = written.baseline.slice();
  adds.forEach(function (own, j) {
    for (var k = 0; k < K; k++) { scores[k] += own[k]; own[k] -= written.means[j][k]; }
  });
  return { scores: scores, adds: adds, range: model.folds && !withoutRange ? rangeOf(model, values, ids) : null };
}

function sumOfLeaves(forest, ids, part, at) {
  var total = 0, before = forest.leavesBefore[part.first];
  for (var t = part.first; t < part.last; t++) { total += at(forest.place[ids[t]] - before); }
  return total;
}

function foldScores(model, fold, values, ids) {
  var scores = fold.intercept.slice();
  fold.trees.forEach(function (part) {
    var forest = model.forests[part.block], many = part.counts.length / model.K;
    for (var k = 0; k < model.K; k++) {
      scores[k] += sumOfLeaves(forest, ids[part.block], part, function (leaf) { return part.step[k] * part.counts[k * many + leaf]; });
    }
  });
  fold.linear.forEach(function (terms) {
    terms.column.forEach(function (column, i) {
      for (var k = 0; k < model.K; k++) { scores[k] += terms.coef[k][i] * coordinate(terms, i, values[0][column]); }
    });
  });
  return scores;
}

// CV+: ranks of the out-of-fold errors around what every fold's predictor says.
function rangeOf(model, values, ids) {
  var folds = model.folds, K = model.K, n = folds.starts[folds.starts.length - 1], found = [[], []];
  var scores = folds.folds.map(function (fold) { return foldScores(model, fold, values, ids); });
  if (model.written.link === "logistic" || model.written.link === "softmax") {
    var shares = scores.map(function (own) { return probabilities(own, model.written.link); });
    return [shares[0].map(function (_, c) {
      var below = 0;
      shares.forEach(function (own, q) {
        for (var i = folds.starts[q]; i < folds.starts[q + 1]; i++) { below += folds.errors[i] < 1 - own[c] ? 1 : 0; }
      });
      return below < folds.rank ? 1 : 0;
    })];
  }
  for (var k = 0; k < K; k++) {
    var low = new Float64Array(n), high = new Float64Array(n);
    folds.folds.forEach(function (fold, q) {
      var spread = fold.spread, forest = model.forests[spread.block], many = spread.values.length / K;
      var wide = Math.sqrt(sumOfLeaves(forest, ids[spread.block], spread, function (leaf) { return spread.values[k * many + leaf]; })) + spread.floor[k];
      if (!(spread.floor[k] > 0)) { wide = 1; }
      for (var i = folds.starts[q]; i < folds.starts[q + 1]; i++) {
        low[i] = folds.errors[k * n + i] * wide - scores[q][k];
        high[i] = folds.errors[k * n + i] * wide + scores[q][k];
      }
    });
    var ends = [-low.sort()[folds.rank - 1], high.sort()[folds.rank - 1]];
    found[0].push(Math.min(ends[0], ends[1]));
    found[1].push(Math.max(ends[0], ends[1]));
  }
  return found;
}

function probabilities(scores, link) {
  if (link === "logistic") {
    var p = 1 / (1 + Math.exp(-scores[0]));
    return [1 / (1 + Math.exp(scores[0])), p];
  }
  var most = Math.max.apply(null, scores), sizes = scores.map(function (s) { return Math.exp(s - most); });
  var total = sizes.reduce(function (a, b) { return a + b; }, 0);
  return sizes.map(function (size) { return size / total; });
}
