"""The drill's training script: what a user's script looks like with Everstep.

    everstep run --nnodes 6:8 trainer/everstep_trainer/drill_train.py

It writes no checkpoint and has no code for failures, nor for the drill.
"""

import everstep
from torch.nn.parallel import DistributedDataParallel

from everstep_trainer.drill_model import (
    Text,
    argument_parser,
    make_model,
    make_optimizer,
    make_scheduler,
)


def main() -> None:
    """Train until the steps are done."""
    arguments = argument_parser("Train the drill's model under `everstep run`.").parse_args()
    own = make_model(arguments.seed)
    optimizer = make_optimizer(own)
    scheduler = make_scheduler(optimizer)
    text = Text(arguments.seed)
    job = everstep.join()
    for generation in job.generations():
        with generation:
            model = DistributedDataParallel(
                own, device_mesh=generation.mesh, gradient_as_bucket_view=True
            )
            generation.track(model=model, optimizer=optimizer, scheduler=scheduler)
            for step in generation.steps(text, total=arguments.steps):
                for batch in step.micro_batches:
                    loss = step.backward(model(batch))
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
                step.completed(loss=loss)


if __name__ == "__main__":
    main()
