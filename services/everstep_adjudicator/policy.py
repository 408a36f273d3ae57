"""Every threshold of the adjudicator, each with the reason for its value."""

from dataclasses import dataclass

from everstep_contract.record import Durations


@dataclass(frozen=True)
class Policy:
    """Durations are seconds. None of them delays the answer to a single, proven loss.

    hearing_seconds: after hearing nobody of a job, absence proves nothing until somebody was heard
        for this long: agents come back to a restarted bus within 2 s, and whoever does not is
        missed, and looked at, after 3 s.
    probe_witnesses, probe_quorum: R11 wants two failed probes; a third witness is asked at the same
        time because one of them may be dead too.
    probe_timeout_seconds: a living agent answers in a millisecond; 250 ms outlasts a busy machine.
    probe_retry_seconds: the next round asks others when too few witnesses answered.
    probe_rounds: after so many rounds the pace drops to ``probe_slow_seconds``.
    settle_seconds: how long a proven loss waits for members already suspected and being probed
        (EC-43); without such a member it does not wait.
    supersede_seconds, supersede_limit_seconds: pause before a generation that never ran is
        replaced; doubled each time up to the limit, so thirty losses in three seconds make six
        generations (EC-43).
    collective_settle_seconds: how long a broken group waits for a proven loss before the same
        members re-form: longer than the pings' staleness (0.73 s measured) and two probes.
    stall_floor_seconds: no step for this long at least, and for `STALL_FACTOR` p99 steps,
        corroborates silence (R11): jobs of millisecond steps are not judged by one hiccup.
    first_step_seconds: a group that formed and completes no step for so long forms again; a first
        step may compile for minutes.
    unresolved_seconds: an incident that is neither proven nor cleared ends in holding (R27).
    blind_seconds: how long observer blindness keeps an incident open before it ends in
        holding{observer_blind} (R14); longer than a restart of the bus, shorter than the 30 s for
        which a watcher calls itself blind.
    form_settle_seconds: how long enough candidates wait for the missing ones before they form.
    form_seconds, construct_seconds, hold_seconds, self_fence_seconds: `Durations` of every order.
        Forming covers killing and starting anew a worker that does not leave (5 s); construct is
        R16's; the hold outlasts a reboot (10 to 15 minutes); self-fence is R24's T, and R23 waits
        60 s of silence before a cordon.
    grow_quiet_seconds: steps between two changes: a job that just re-formed runs this long first.
    grow_interval_seconds: between two growths (R19: rate-limited).
    readmit_seconds: how long an excluded incarnation must be ready without a break before it is
        let in again by a job that runs, so that a flapping member costs one generation a while.
    restart_budget: generations in a row that completed no step before the job is given up.
    no_progress_limit: incidents in a row without a newer step before the job is given up.
    finish_seconds: how long the last members may take to finish after the first one did.
    excluded_limit: exclusions kept in a record, newest first.
    rescale_answer_seconds: how long a wish for another size waits for a rescaler, which looks once
        a second and may be restarting.
    rescale_seconds: how long a granted one waits until the Job has the size; the members that left
        for it are let in again after it.
    """

    hearing_seconds: float = 4.0
    probe_witnesses: int = 3
    probe_quorum: int = 2
    probe_timeout_seconds: float = 0.25
    probe_retry_seconds: float = 0.5
    probe_rounds: int = 6
    probe_slow_seconds: float = 5.0
    settle_seconds: float = 0.1
    supersede_seconds: float = 0.1
    supersede_limit_seconds: float = 2.0
    collective_settle_seconds: float = 2.0
    stall_floor_seconds: float = 2.0
    first_step_seconds: float = 600.0
    unresolved_seconds: float = 120.0
    blind_seconds: float = 20.0
    form_settle_seconds: float = 5.0
    form_seconds: float = 15.0
    construct_seconds: float = 2.0
    hold_seconds: float = 1800.0
    self_fence_seconds: float = 60.0
    grow_quiet_seconds: float = 2.0
    grow_interval_seconds: float = 10.0
    readmit_seconds: float = 10.0
    restart_budget: int = 20
    no_progress_limit: int = 3
    finish_seconds: float = 60.0
    excluded_limit: int = 64
    rescale_answer_seconds: float = 30.0
    rescale_seconds: float = 600.0

    @property
    def durations(self) -> Durations:
        """What every order carries."""
        return Durations(
            form_seconds=self.form_seconds,
            construct_seconds=self.construct_seconds,
            hold_seconds=self.hold_seconds,
            self_fence_seconds=self.self_fence_seconds,
        )

    def supersede_pause_seconds(self, unresumed: int) -> float:
        """Pause before the ``unresumed``-th generation in a row that ran no step is replaced."""
        pause = self.supersede_seconds * 2.0 ** min(max(unresumed - 1, 0), 16)
        return min(pause, self.supersede_limit_seconds)
