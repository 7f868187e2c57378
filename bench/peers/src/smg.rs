//! SMG's `ChainIndex` (crate kv-index).
use crate::events::Event;
use crate::Index;
use kv_index::{ChainBlockMap, ChainIndex, ContentHash, SequenceHash, StoredBlock};

pub struct Chain {
    index: ChainIndex,
    workers: Vec<u32>,
    maps: Vec<ChainBlockMap>,
}

pub enum Update {
    Stored(usize, Vec<StoredBlock>, Option<SequenceHash>),
    Removed(usize, Vec<SequenceHash>),
}

impl Chain {
    pub fn new(workers: u32) -> Self {
        let index = ChainIndex::with_max_workers(workers.max(64) as usize);
        let ids = (0..workers).map(|worker| index.intern_worker(&format!("w{worker}")).unwrap()).collect();
        Chain { index, workers: ids, maps: (0..workers).map(|_| ChainBlockMap::new()).collect() }
    }
}

impl Index for Chain {
    type Updates = Vec<Update>;
    type Prompt = Vec<ContentHash>;

    fn prepare(&self, updates: &[Event]) -> Self::Updates {
        let update = |event: &Event| match event {
            Event::Asked(_) => unreachable!("a question is no update"),
            Event::Removed { worker, names } => {
                Update::Removed(*worker as usize, names.iter().map(|name| SequenceHash(*name)).collect())
            }
            Event::Stored { worker, parent, names, contents } => {
                let blocks = names.iter().zip(contents).map(|(name, content)| StoredBlock {
                    seq_hash: SequenceHash(*name),
                    content_hash: ContentHash(*content),
                });
                Update::Stored(*worker as usize, blocks.collect(), parent.map(SequenceHash))
            }
        };
        updates.iter().map(update).collect()
    }

    fn apply(&mut self, updates: Self::Updates) -> usize {
        let mut refused = 0;
        for update in updates {
            match update {
                Update::Stored(worker, blocks, parent) => {
                    let id = self.workers[worker];
                    let result = self.index.apply_stored(id, &blocks, parent, &mut self.maps[worker]);
                    refused += usize::from(result.is_err());
                }
                Update::Removed(worker, names) => {
                    self.index.apply_removed(self.workers[worker], &names, &mut self.maps[worker]);
                }
            }
        }
        refused
    }

    fn prompt(&self, contents: &[u64]) -> Self::Prompt {
        contents.iter().map(|content| ContentHash(*content)).collect()
    }

    fn deepest(&mut self, prompt: Self::Prompt) -> (usize, u32) {
        let found = self.index.find_matches(&prompt, false);
        (found.scores.len(), found.scores.values().copied().max().unwrap_or(0))
    }
}
