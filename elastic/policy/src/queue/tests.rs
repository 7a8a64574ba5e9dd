use proptest::prelude::*;

use super::*;

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn search_agrees_with_walk_through_list(
        steps in prop::collection::vec((any::<bool>(), 1_u32..20, 1_u64..50, 0_usize..200), 0..300)
    ) {
        let mut queue = Queue::default();
        let mut model: Vec<(JobId, Least)> = Vec::new();
        let mut number = 0;
        for (is_push, nodes, walltime, at) in steps {
            let least = Least { nodes, walltime: Span(walltime) };
            if is_push || model.is_empty() {
                queue.push(JobId(number), least);
                model.push((JobId(number), least));
                number += 1 + at as u32 % 3;
            } else {
                let (job, _) = model.remove(at % model.len());
                prop_assert!(queue.remove(job));
                prop_assert!(!queue.remove(job));
            }
            prop_assert!(queue.iter().eq(model.iter().map(|(job, _)| *job)));
            prop_assert_eq!(queue.len(), model.len());
            prop_assert_eq!(queue.head(), model.first().map(|(job, _)| *job));
            let fits = |least: Least| least.nodes <= nodes && least.walltime <= Span(walltime);
            let after = JobId(at as u32);
            let expected = model.iter().find(|(job, least)| *job > after && fits(*least));
            prop_assert_eq!(queue.next(Some(after), fits), expected.map(|(job, _)| *job));
        }
    }
}
