//! Mixtures of experts: which layers have them, and how their router scores.

/// Feed-forward blocks of which a router picks a few for each token.
#[derive(Debug, Clone, PartialEq)]
pub struct ExpertsConfig {
    /// Number of experts in a layer.
    pub count: usize,
    /// Experts that each token is given to.
    pub per_token: usize,
    /// Width inside an expert's block.
    pub width: usize,
    /// How the picked experts share in the result.
    pub scores: Scores,
    /// Every so many layers has experts, counted from one; the others have one block for all tokens.
    pub step: usize,
    /// Layers, counted from zero, that have one block for all tokens nevertheless.
    pub dense_layers: Vec<usize>,
}

/// How experts share in the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scores {
    /// A softmax over all experts; `normalized`: divided by the sum of the picked ones.
    OfAll {
        /// Whether the shares of the picked experts add up to one.
        normalized: bool,
    },
    /// A softmax over the picked experts.
    OfPicked,
}

impl ExpertsConfig {
    /// Whether a layer, counted from zero, has experts.
    pub fn are_in(&self, layer: usize) -> bool {
        (layer + 1).is_multiple_of(self.step) && !self.dense_layers.contains(&layer)
    }

    /// What is wrong with the numbers, by their names here.
    pub(super) fn check(&self) -> Result<(), (&'static str, String)> {
        let sizes = [
            ("experts.count", self.count),
            ("experts.per_token", self.per_token),
            ("experts.width", self.width),
            ("experts.step", self.step),
        ];
        for (name, size) in sizes {
            if !(1..1 << 31).contains(&size) {
                return Err((name, format!("{size} is no possible size")));
            }
        }
        if self.per_token > self.count {
            let message = format!("{} of {} experts cannot be picked", self.per_token, self.count);
            return Err(("experts.per_token", message));
        }
        Ok(())
    }
}

/// Layers that see only the last tokens.
#[derive(Debug, Clone, PartialEq)]
pub struct SlidingWindow {
    /// Tokens that a token sees, itself included.
    pub tokens: usize,
    /// Whether each layer has the window; repeated when there are more layers.
    pub layers: Vec<bool>,
}

impl SlidingWindow {
    /// The window of a layer, counted from zero.
    pub fn of(&self, layer: usize) -> Option<usize> {
        let windowed = self.layers.get(layer % self.layers.len().max(1));
        windowed.is_some_and(|windowed| *windowed).then_some(self.tokens)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn experts_are_in_every_second_layer_but_for_exceptions() {
        let scores = Scores::OfPicked;
        let experts = ExpertsConfig {
            count: 4,
            per_token: 2,
            width: 8,
            scores,
            step: 2,
            dense_layers: vec![3],
        };
        let layers: Vec<usize> = (0..8).filter(|layer| experts.are_in(*layer)).collect();
        assert_eq!(layers, [1, 5, 7]);
        assert_eq!(experts.check(), Ok(()));
        let many = ExpertsConfig { per_token: 5, ..experts };
        assert_eq!(many.check().unwrap_err().0, "experts.per_token");
    }

    #[test]
    fn windows_repeat_over_the_layers() {
        let window = SlidingWindow { tokens: 128, layers: vec![true, false] };
        assert_eq!([0, 1, 2, 3].map(|layer| window.of(layer)), [Some(128), None, Some(128), None]);
        assert_eq!(SlidingWindow { tokens: 1, layers: vec![] }.of(3), None);
    }
}
