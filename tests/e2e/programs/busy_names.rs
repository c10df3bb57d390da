// busy_names: a part of a second of CPU time in each of some functions, with inlined ones in them.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::{Duration, Instant};

trait Shape {
    fn stir(&self, value: u64) -> u64;
}

struct Round<T> {
    factor: T,
}

impl<T: Into<u64> + Copy> Shape for Round<T> {
    #[inline(never)]
    fn stir(&self, value: u64) -> u64 {
        (0..1000).fold(value, |sum, i| mix(sum ^ (i * self.factor.into())))
    }
}

#[inline(always)]
fn mix(value: u64) -> u64 {
    let value = value.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    value ^ (value >> 29)
}

mod tables {
    pub struct Table<T> {
        pub values: Vec<T>,
    }

    impl<T: Ord + Clone> Table<T> {
        #[inline(never)]
        pub fn order(&mut self) {
            self.values.sort_by(|a, b| b.cmp(a));
        }
    }
}

#[inline(never)]
fn for_a_while(mut work: impl FnMut(u64) -> u64) -> u64 {
    let start = Instant::now();
    let mut sum = 0;
    while start.elapsed() < Duration::from_millis(400) {
        sum = work(sum);
    }
    sum
}

fn main() {
    let shape: Box<dyn Shape> = Box::new(Round { factor: 7u32 });
    let mut sum = for_a_while(|sum| shape.stir(sum));
    sum += for_a_while(|sum| {
        let mut table = tables::Table { values: (0..5000).map(|i| mix(sum + i)).collect() };
        table.order();
        table.values[0]
    });
    sum += for_a_while(|sum| {
        let mut text = String::new();
        let mut counts = BTreeMap::new();
        for i in 0..500 {
            // Of integers, the linker has one function for several types.
            write!(text, "{}", mix(sum + i) as f64).unwrap();
            *counts.entry(mix(i) % 100).or_insert(0u64) += text.len() as u64;
        }
        counts.values().sum()
    });
    println!("{}", sum);
}
