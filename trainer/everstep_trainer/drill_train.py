"""The drill's training script: what a user's script looks like with Everstep.

    everstep run --nnodes 6:8 trainer/everstep_trainer/drill_train.py --log-directory DIR

It writes no checkpoint and has no code for failures.
"""

import everstep
from torch.nn.parallel import DistributedDataParallel

from everstep_trainer.drill_model import (
    StepLog,
    Text,
    argument_parser,
    make_model,
    make_optimizer,
    make_scheduler,
)


def main() -> None:
    """Train until the steps are done."""
    arguments = argument_parser("Train the drill's model under `everstep run`.").parse_args()
    log = StepLog(arguments.log_directory)
    log.write("start")
    own = make_model(arguments.seed)
    optimizer = make_optimizer(own)
    scheduler = make_scheduler(optimizer)
    text = Text(arguments.seed)
    job = everstep.join()
    for generation in job.generations():
        place = {
            "member": generation.members[generation.rank],
            "rank": generation.rank,
            "world_size": generation.world_size,
            "generation": generation.number,
        }
        with generation:
            model = DistributedDataParallel(own, device_mesh=generation.mesh)
            generation.track(model=model, optimizer=optimizer, scheduler=scheduler)
            log.write("formed", step=generation.step, **place)
            for step in generation.steps(text, total=arguments.steps):
                for batch in step.micro_batches:
                    loss = step.backward(model(batch))
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
                step.completed(loss=loss)
                log.write("step", step=step.index + 1, loss=loss.item(), **place)
    log.write("end")


if __name__ == "__main__":
    main()
