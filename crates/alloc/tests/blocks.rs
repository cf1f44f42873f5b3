//! Every block of this program comes from the allocator that it tests.

use std::sync::mpsc;
use std::thread;

use mlx_vulkan_alloc::Magazines;
use proptest::prelude::*;

#[global_allocator]
static ALLOCATOR: Magazines = Magazines;

/// Bytes that begin as their content and alignment are told by an index.
#[derive(Debug)]
struct Block {
    bytes: Vec<u8>,
    first: u8,
}

impl Block {
    fn new(size: usize, first: u8) -> Block {
        let mut bytes = vec![0u8; size];
        assert!(bytes.iter().all(|&byte| byte == 0), "a zeroed block of {size} bytes is not zero");
        bytes.iter_mut().zip(pattern(first)).for_each(|(byte, value)| *byte = value);
        Block { bytes, first }
    }

    fn resize(&mut self, size: usize) {
        self.bytes.truncate(size);
        self.bytes.shrink_to_fit();
        self.bytes.reserve_exact(size - self.bytes.len());
        let from = self.bytes.len();
        self.bytes.extend(pattern(self.first).skip(from).take(size - from));
    }

    fn check(&self) {
        assert!(
            self.bytes.iter().copied().eq(pattern(self.first).take(self.bytes.len())),
            "{self:?}"
        );
    }
}

fn pattern(first: u8) -> impl Iterator<Item = u8> {
    (0..).map(move |i: usize| first.wrapping_add((i * 31) as u8))
}

#[derive(Debug, Clone)]
enum Step {
    Make(usize),
    Resize(usize, usize),
    Drop(usize),
    /// Another thread drops the older half.
    Send,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let size = 0usize..640;
    prop::collection::vec(
        prop_oneof![
            8 => size.clone().prop_map(Step::Make),
            2 => (any::<usize>(), size).prop_map(|(at, size)| Step::Resize(at, size)),
            2 => any::<usize>().prop_map(Step::Drop),
            1 => Just(Step::Send),
        ],
        1..400,
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn blocks_keep_their_content(steps in steps()) {
        let (sender, receiver) = mpsc::channel::<Block>();
        let other = thread::spawn(move || receiver.into_iter().for_each(|block| block.check()));
        let mut blocks = Vec::new();
        for (i, step) in steps.into_iter().enumerate() {
            match step {
                Step::Make(size) => blocks.push(Block::new(size, i as u8)),
                Step::Send => blocks.drain(..blocks.len() / 2).for_each(|block| sender.send(block).unwrap()),
                _ if blocks.is_empty() => {}
                Step::Resize(at, size) => {
                    let at = at % blocks.len();
                    blocks[at].resize(size);
                }
                Step::Drop(at) => blocks.swap_remove(at % blocks.len()).check(),
            }
        }
        blocks.iter().for_each(Block::check);
        drop(sender);
        other.join().unwrap();
    }
}

#[repr(align(16))]
struct Aligned16([u8; 48]);

#[repr(align(64))]
struct Aligned64([u8; 192]);

#[test]
fn blocks_are_aligned() {
    let sixteen: Vec<_> = (0..500).map(|_| Box::new(Aligned16([1; 48]))).collect();
    let more: Vec<_> = (0..500).map(|_| Box::new(Aligned64([1; 192]))).collect();
    assert!(sixteen.iter().all(|block| block.0.as_ptr().addr().is_multiple_of(16)));
    assert!(more.iter().all(|block| block.0.as_ptr().addr().is_multiple_of(64)));
}

/// A size that nothing else in this program asks for, as far as we know.
type Odd = [u8; 491];

fn addresses(blocks: &[Box<Odd>]) -> Vec<usize> {
    blocks.iter().map(|block| block.as_ptr().addr()).collect()
}

#[test]
fn blocks_that_another_thread_frees_come_back() {
    let (sender, receiver) = mpsc::channel::<Vec<Box<Odd>>>();
    let (freed, is_freed) = mpsc::channel();
    let other = thread::spawn(move || {
        for blocks in receiver {
            drop(blocks);
            freed.send(()).unwrap();
        }
    });
    let blocks: Vec<_> = (0..1000).map(|i| Box::new([i as u8; 491])).collect();
    let before = addresses(&blocks);
    sender.send(blocks).unwrap();
    is_freed.recv().unwrap();
    let after: Vec<_> = (0..1000).map(|i| Box::new([i as u8; 491])).collect();
    let again = addresses(&after).iter().filter(|address| before.contains(address)).count();
    // The thread that freed them, which goes on, may keep 128.
    assert!(again >= 800, "{again} of 1,000 blocks came back");
    drop(sender);
    other.join().unwrap();
}

#[cfg(target_os = "linux")]
#[test]
fn threads_that_end_keep_nothing() {
    let resident = || {
        let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
        statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
    };
    let round = || {
        let blocks: Vec<_> = (0..100).map(|i| Box::new([i as u8; 475])).collect();
        thread::spawn(move || drop(blocks)).join().unwrap();
    };
    (0..100).for_each(|_| round());
    let before = resident();
    // They would have 200 MB, and their magazines 120 MB.
    (0..4000).for_each(|_| round());
    let grown = resident().saturating_sub(before);
    assert!(grown < 64 << 20, "{grown} bytes stay");
}
