//! The order of contractions: the greedy search of NumPy and opt_einsum, which takes the pair that
//! frees the most memory first (Smith and Gray, opt_einsum, JOSS 3(26), 2018).

use std::collections::BTreeSet;

use super::{Sizes, Subscripts, Term};

type Letters = BTreeSet<char>;

/// One contraction: the terms at `positions` of what is left become `output`.
pub(super) struct Contraction {
    pub(super) inputs: Vec<Term>,
    pub(super) output: Term,
    pub(super) positions: Vec<usize>,
}

/// Multiplications, and the axes of the largest contraction.
#[derive(Clone, Copy)]
struct Cost {
    flops: usize,
    axes: usize,
}

/// Contractions in order, and what they cost.
pub(super) struct Path {
    pub(super) contractions: Vec<Contraction>,
    naive: Cost,
    optimized: Cost,
}

impl Path {
    /// Up to two terms are one contraction; more are searched for pairs.
    pub(super) fn find(subscripts: Subscripts) -> Path {
        let Subscripts { inputs, output, sizes } = subscripts;
        let naive = cost_of_all(&inputs, &output, &sizes);
        if inputs.len() <= 2 {
            let positions = (0..inputs.len()).collect();
            let contractions = vec![Contraction { inputs, output, positions }];
            return Path { contractions, naive, optimized: naive };
        }
        let (mut contractions, optimized) = Search::new(inputs, &output, &sizes, naive.flops).run();
        contractions.last_mut().expect("three terms make a contraction").output = output;
        Path { contractions, naive, optimized }
    }

    /// The costs in words, for `einsum_path`.
    pub(super) fn summary(&self, subscripts: &str) -> String {
        format!(
            "  Complete contraction:  {subscripts}\n         Naive scaling:  {}\n     Optimized \
             scaling:  {}\n      Naive FLOP count:  {}\n  Optimized FLOP count:  {}\n",
            self.naive.axes, self.optimized.axes, self.naive.flops, self.optimized.flops
        )
    }
}

fn size_of<'a>(letters: impl IntoIterator<Item = &'a char>, sizes: &Sizes) -> usize {
    letters.into_iter().fold(1, |size: usize, c| size.saturating_mul(sizes[c]))
}

/// Multiplications and additions over all of `letters`.
fn flops(letters: &Letters, sums: bool, terms: usize, sizes: &Sizes) -> usize {
    let each = (terms.saturating_sub(1)).max(1) + usize::from(sums);
    size_of(letters, sizes).saturating_mul(each)
}

fn cost_of_all(inputs: &[Term], output: &Term, sizes: &Sizes) -> Cost {
    let letters: Letters = inputs.iter().flatten().copied().collect();
    let sums = letters.iter().any(|c| !output.contains(c));
    Cost { flops: flops(&letters, sums, inputs.len(), sizes), axes: letters.len() }
}

/// A pair that may be contracted.
struct Pair {
    /// Elements that the pair has more than its result.
    freed: i128,
    flops: usize,
    output: Letters,
    axes: usize,
    x: usize,
    y: usize,
}

struct Search<'a> {
    inputs: Vec<Term>,
    output: &'a Term,
    sizes: &'a Sizes,
    most_flops: usize,
    most_elements: usize,
    contractions: Vec<Contraction>,
    cost: Cost,
}

impl<'a> Search<'a> {
    fn new(inputs: Vec<Term>, output: &'a Term, sizes: &'a Sizes, most_flops: usize) -> Self {
        let all = inputs.iter().chain([output]);
        let most_elements = all.map(|term| size_of(term, sizes)).max().unwrap_or(1);
        let (contractions, cost) = (Vec::new(), Cost { flops: 0, axes: 0 });
        Search { inputs, output, sizes, most_flops, most_elements, contractions, cost }
    }

    fn run(mut self) -> (Vec<Contraction>, Cost) {
        let mut possible: Vec<Pair> = Vec::new();
        let n = self.inputs.len();
        let mut new: Vec<(usize, usize)> =
            (0..n).flat_map(|x| (x + 1..n).map(move |y| (x, y))).collect();
        while self.inputs.len() > 1 {
            let overlap = |&(x, y): &(usize, usize)| {
                self.inputs[x].iter().any(|c| self.inputs[y].contains(c))
            };
            possible.extend(new.iter().copied().filter(overlap).filter_map(|p| self.pair(p)));
            if possible.is_empty() {
                // Only outer products are left.
                possible.extend(new.iter().filter_map(|&p| self.pair(p)));
            }
            let Some(best) = best_of(&possible) else {
                self.contract_the_rest();
                break;
            };
            let best = possible.remove(best);
            possible.retain(|p| ![p.x, p.y].iter().any(|i| [best.x, best.y].contains(i)));
            for pair in &mut possible {
                let moved = |i: usize| i - usize::from(i > best.x) - usize::from(i > best.y);
                (pair.x, pair.y) = (moved(pair.x), moved(pair.y));
            }
            self.contract(best);
            let last = self.inputs.len() - 1;
            new = (0..last).map(|i| (i, last)).collect();
        }
        (self.contractions, self.cost)
    }

    /// The contraction of two terms, unless its result is larger than any operand or the path gets
    /// dearer than one contraction of everything.
    fn pair(&self, (x, y): (usize, usize)) -> Option<Pair> {
        let letters: Letters = self.inputs[x].iter().chain(&self.inputs[y]).copied().collect();
        let others = (0..self.inputs.len()).filter(|&i| i != x && i != y);
        let needed: Letters =
            others.flat_map(|i| &self.inputs[i]).chain(self.output).copied().collect();
        let output: Letters = letters.intersection(&needed).copied().collect();
        let size = size_of(&output, self.sizes);
        let before = [x, y].map(|i| {
            let distinct: Letters = self.inputs[i].iter().copied().collect();
            size_of(&distinct, self.sizes) as i128
        });
        let flops = flops(&letters, letters.len() > output.len(), 2, self.sizes);
        let fits =
            size <= self.most_elements && self.cost.flops.saturating_add(flops) <= self.most_flops;
        let freed = before[0] + before[1] - size as i128;
        fits.then_some(Pair { freed, flops, output, axes: letters.len(), x, y })
    }

    fn contract(&mut self, pair: Pair) {
        let mut output: Term = pair.output.into_iter().collect();
        output.sort_by_key(|c| self.sizes[c]);
        let y = self.inputs.remove(pair.y);
        let x = self.inputs.remove(pair.x);
        let positions = vec![pair.x, pair.y];
        self.inputs.push(output.clone());
        self.contractions.push(Contraction { inputs: vec![x, y], output, positions });
        self.cost.flops = self.cost.flops.saturating_add(pair.flops);
        self.cost.axes = self.cost.axes.max(pair.axes);
    }

    fn contract_the_rest(&mut self) {
        let inputs = std::mem::take(&mut self.inputs);
        let rest = cost_of_all(&inputs, self.output, self.sizes);
        let positions = (0..inputs.len()).collect();
        self.contractions.push(Contraction { inputs, output: self.output.clone(), positions });
        self.cost.flops = self.cost.flops.saturating_add(rest.flops);
        self.cost.axes = self.cost.axes.max(rest.axes);
    }
}

/// The first of the pairs that free the most, and of those cost the least.
fn best_of(pairs: &[Pair]) -> Option<usize> {
    (0..pairs.len()).min_by_key(|&i| (-pairs[i].freed, pairs[i].flops))
}
