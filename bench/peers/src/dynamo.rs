//! NVIDIA Dynamo's `RadixTree` and its concurrent compressed tree (crate dynamo-kv-router).
use crate::events::Event;
use crate::Index;
use dynamo_kv_router::RadixTree;
use dynamo_kv_router::concurrent_radix_tree_compressed::ConcurrentRadixTreeCompressed;
use dynamo_kv_router::indexer::{SyncIndexer, WorkerTask};
use dynamo_kv_router::protocols::*;
use std::sync::Arc;

pub fn prompt(contents: &[u64]) -> Vec<LocalBlockHash> {
    contents.iter().map(|content| LocalBlockHash(*content)).collect()
}

fn event(id: usize, update: &Event) -> RouterEvent {
    let (worker, data) = match update {
        Event::Asked(_) => unreachable!("a question is no update"),
        Event::Removed { worker, names } => {
            let block_hashes = names.iter().map(|name| ExternalSequenceBlockHash(*name)).collect();
            (*worker, KvCacheEventData::Removed(KvCacheRemoveData { block_hashes }))
        }
        Event::Stored { worker, parent, names, contents } => {
            let blocks = names.iter().zip(contents).map(|(name, content)| KvCacheStoredBlockData {
                block_hash: ExternalSequenceBlockHash(*name),
                tokens_hash: LocalBlockHash(*content),
                mm_extra_info: None,
            });
            let data = KvCacheStoreData {
                parent_hash: parent.map(ExternalSequenceBlockHash),
                start_position: None,
                blocks: blocks.collect(),
            };
            (*worker, KvCacheEventData::Stored(data))
        }
    };
    RouterEvent::new(worker as u64, KvCacheEvent { event_id: id as u64, dp_rank: 0, data })
}

fn events(updates: &[Event]) -> Vec<RouterEvent> {
    updates.iter().enumerate().map(|(id, update)| event(id, update)).collect()
}

pub struct Radix(RadixTree);

impl Radix {
    pub fn new() -> Self {
        Radix(RadixTree::new())
    }
}

impl Index for Radix {
    type Updates = Vec<RouterEvent>;
    type Prompt = Vec<LocalBlockHash>;

    fn prepare(&self, updates: &[Event]) -> Self::Updates {
        events(updates)
    }

    fn apply(&mut self, updates: Self::Updates) -> usize {
        updates.into_iter().map(|update| self.0.apply_event(update)).filter(Result::is_err).count()
    }

    fn prompt(&self, contents: &[u64]) -> Self::Prompt {
        prompt(contents)
    }

    fn deepest(&mut self, prompt: Self::Prompt) -> (usize, u32) {
        let found = self.0.find_matches(prompt, false);
        (found.scores.len(), found.scores.values().copied().max().unwrap_or(0))
    }
}

/// Its updates go through the channel of its own worker thread, as in Dynamo.
pub struct Concurrent {
    tree: Arc<ConcurrentRadixTreeCompressed>,
    tasks: flume::Sender<WorkerTask>,
}

impl Concurrent {
    pub fn new() -> Self {
        let tree = Arc::new(ConcurrentRadixTreeCompressed::new());
        let (tasks, received) = flume::unbounded();
        let worker = tree.clone();
        std::thread::spawn(move || worker.worker(received, None).unwrap());
        Concurrent { tree, tasks }
    }
}

impl Index for Concurrent {
    type Updates = Vec<RouterEvent>;
    type Prompt = Vec<LocalBlockHash>;

    fn prepare(&self, updates: &[Event]) -> Self::Updates {
        events(updates)
    }

    fn apply(&mut self, updates: Self::Updates) -> usize {
        for update in updates {
            self.tasks.send(WorkerTask::Event(update)).expect("the tree's thread ended");
        }
        // Answered in order: when it is there, all before it is applied.
        let (answer, answered) = tokio::sync::oneshot::channel();
        self.tasks.send(WorkerTask::Stats(answer)).expect("the tree's thread ended");
        usize::from(answered.blocking_recv().is_err())
    }

    fn prompt(&self, contents: &[u64]) -> Self::Prompt {
        prompt(contents)
    }

    fn deepest(&mut self, prompt: Self::Prompt) -> (usize, u32) {
        let found = self.tree.find_matches(&prompt, false);
        (found.scores.len(), found.scores.values().copied().max().unwrap_or(0))
    }
}
