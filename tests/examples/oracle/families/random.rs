//! Random numbers: the same for the same key.

use mlx::{Device, random};

use super::{Table, one};

pub(super) const TABLE: Table = &[
    ("random.key", |x| one(random::key(x.at(0).int() as u64))),
    ("random.split", |x| one(random::split_n(&x.array(0)?, x.at(1).count()?))),
    ("random.uniform", |x| {
        let (low, high, key) = (x.at(0).operand()?, x.at(1).operand()?, x.array("key")?);
        one(random::uniform(&*low, &*high, &x.at(2).sizes()?, x.at("dtype").dtype(), Some(&key)))
    }),
    ("random.normal", |x| {
        let (shape, dtype, key) = (x.at("shape").sizes()?, x.at("dtype").dtype(), x.array("key")?);
        let (loc, scale) = (x.at("loc").single(), x.at("scale").single());
        one(random::normal(&shape, dtype, loc, scale, Some(&key)))
    }),
    ("random.laplace", |x| {
        let (shape, dtype, key) = (x.at("shape").sizes()?, x.at("dtype").dtype(), x.array("key")?);
        let (loc, scale) = (x.at("loc").single(), x.at("scale").single());
        one(random::laplace(&shape, dtype, loc, scale, Some(&key)))
    }),
    ("random.gumbel", |x| {
        let (shape, dtype) = (x.at("shape").sizes()?, x.at("dtype").dtype());
        one(random::gumbel(&shape, dtype, Some(&x.array("key")?)))
    }),
    ("random.truncated_normal", |x| {
        let (low, high, key) = (x.at(0).operand()?, x.at(1).operand()?, x.array("key")?);
        let (shape, dtype) = (x.at(2).sizes()?, x.at("dtype").dtype());
        one(random::truncated_normal(&*low, &*high, &shape, dtype, Some(&key)))
    }),
    ("random.randint", |x| {
        let (low, high, key) = (x.at(0).operand()?, x.at(1).operand()?, x.array("key")?);
        one(random::randint(&*low, &*high, &x.at(2).sizes()?, x.at("dtype").dtype(), Some(&key)))
    }),
    ("random.bernoulli", |x| {
        let (p, key) = (x.at(0).operand()?, x.array("key")?);
        one(random::bernoulli(&*p, &x.at(1).sizes()?, Some(&key)))
    }),
    ("random.permutation", |x| {
        let key = x.array("key")?;
        match x.at(0).is_array() {
            true => one(random::permutation(&x.array(0)?, x.at("axis").int(), Some(&key))),
            false => one(random::permutation_of(x.at(0).count()?, Some(&key))),
        }
    }),
    ("random.multivariate_normal", |x| {
        let (mean, cov, key) = (x.array(0)?, x.array(1)?, x.array("key")?);
        let (shape, dtype) = (x.at(2).sizes()?, x.at("dtype").dtype());
        // The root of the covariance is a factorization.
        one(mlx::with_device(Device::CPU, || {
            random::multivariate_normal(&mean, &cov, &shape, dtype, Some(&key))
        })?)
    }),
    ("random.categorical", |x| {
        let (logits, axis, key) = (x.array(0)?, x.at("axis").int(), x.array("key")?);
        if let Some(shape) = x.at("shape").given() {
            return one(random::categorical_with_shape(&logits, axis, &shape.sizes()?, Some(&key)));
        }
        match x.at("num_samples").given() {
            Some(n) => one(random::categorical_with_samples(&logits, axis, n.count()?, Some(&key))),
            None => one(random::categorical(&logits, axis, Some(&key))),
        }
    }),
];
