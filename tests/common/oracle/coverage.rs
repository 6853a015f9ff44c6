//! What a run came across; a test that never meets a case proves nothing about it.

macro_rules! coverage {
    (sum { $($(#[$sd:meta])* $s:ident,)* } max { $($(#[$md:meta])* $m:ident,)* }) => {
        /// Counts of the cases met.
        #[derive(Debug, Clone, Default)]
        pub struct Coverage {
            $($(#[$sd])* pub $s: u64,)*
            $($(#[$md])* pub $m: u64,)*
            /// By `Resolution` code.
            pub resolved: [u64; 7],
            /// By number of levels, 1 to 4.
            pub levels: [u64; 5],
        }

        impl Coverage {
            pub fn add(&mut self, o: &Coverage) {
                $(self.$s += o.$s;)*
                $(self.$m = self.$m.max(o.$m);)*
                self.resolved.iter_mut().zip(o.resolved).for_each(|(x, y)| *x += y);
                self.levels.iter_mut().zip(o.levels).for_each(|(x, y)| *x += y);
            }
        }
    };
}

coverage! {
    sum {
        runs,
        sights,
        looks,
        grace_periods,
        direct_calls,
        callback_calls,
        /// Calls that took the callback route because the latch was closed.
        latched_calls,
        poll_calls,
        poll_full_calls,
        barrier_calls,
        /// Barriers that began with callbacks outstanding, and returned.
        barriers_served,
        /// Barriers during which the callbacks of a dead CPU moved.
        barriers_over_migration,
        exp_calls,
        /// Expedited grace periods; fewer than calls, where callers are batched.
        exp_gps,
        /// … that started inside a normal one.
        exp_in_gp,
        exp_ipis,
        /// Leaves whose last reader that an expedited grace period waited for left.
        exp_reader_left,
        /// CPUs that went offline while an expedited grace period waited for them.
        exp_offline_owing,
        /// Polled numbers that an expedited grace period ended under a normal one.
        exp_ended_polled,
        /// Full cookies that were done by an expedited grace period.
        exp_ended_poll_full,
        callbacks,
        early_reports,
        /// The report was due and declined: the kthread had moved.
        early_declined,
        scans,
        /// A scan left a hold-out.
        scan_left_holdout,
        /// Looks at which the worker had something to do.
        worker,
        /// Grace periods at whose start all five wait heads were taken.
        heads_exhausted,
        /// The counter went through zero.
        wrapped,
        next_ready_used,
        next_while_both_numbered,
        /// A batch left ready callbacks behind.
        batch_split,
        /// A grace period that followed without a pause.
        back_to_back,
        /// The kthread's CPU changed inside initialisation.
        moved_in_init,
        /// A quiescent state that came too late for its grace period and was given up.
        qs_given_up,
        /// Sections open at the start of a grace period.
        sections_spanned,
        /// Callers whose begin fell into a running grace period.
        began_inside_gp,
        /// Grace periods on a tree with offline CPUs.
        offline_gps,
        /// Sections seen.
        sections,
        /// Sections in which the reader was preempted.
        preempted,
        /// … and whose CPU still owed the grace period in progress.
        preempted_owing,
        /// Preempted sections that were open at the start of a grace period.
        preempted_spanned,
        /// Grace periods that ended with a blocked reader's leaving.
        readers_waited_for,
        /// Blocked readers whose quiescent state was reported some time after their section's end.
        deferred,
        /// Ticks out of idle that counted, without preemption.
        idle_ticks,
        /// Reschedule points that recorded a quiescent state.
        resched_points,
        went_offline,
        came_online,
        /// CPUs that went offline while the grace period waited for them.
        offline_owing,
        /// CPUs that went offline between the hotplug pass and their leaf's initialisation.
        offline_in_init,
        /// CPUs that came online inside a grace period.
        online_in_gp,
        /// Transitions between the start of a grace period and the end of its initialisation.
        hotplug_in_init,
        /// A leaf whose last CPU left while blocked readers remained.
        leaf_without_cpus,
        /// Leaves without CPUs at the start of a grace period.
        empty_leaves,
        /// Takeovers that moved callbacks.
        migrations,
        migrated_callbacks,
        latch_closed,
        latch_opened,
        gpwraps,
        /// Sleeps of the `gp_*_delay` knobs.
        delays,
        /// Lists found over the overload mark.
        overloads,
        /// Scans that came early for overload.
        overload_scans,
        /// Runs of the RCU core in ksoftirqd.
        ksoftirqd,
        /// Batches that were not over with the run of the RCU core that began them.
        long_batches,
        /// Grace periods noticed inside call_rcu(), by the flood rule.
        noticed_in_call,
        /// Scans that somebody asked for before they were due.
        forced_scans,
        /// Requests that had to wait for a second grace period, for want of a wait head.
        put_off,
    }
    max {
        max_scans,
        max_heads,
        max_list,
        max_blockers,
        max_exp_blockers,
    }
}
