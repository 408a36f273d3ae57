"""The drill's training script: what a user's script looks like with Everstep.

    everstep run --nnodes 6:8 trainer/everstep_trainer/drill_train.py

It has no code that writes or reads checkpoints, none for failures, and none for the drill.
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
    parser = argument_parser("Train the drill's model under `everstep run`.")
    parser.add_argument("--snapshot-every", type=int, help="steps; default: the library's")
    parser.add_argument("--checkpoint-every", type=int, help="steps; default: the library's")
    arguments = parser.parse_args()
    own = make_model(arguments.seed)
    optimizer = make_optimizer(own)
    scheduler = make_scheduler(optimizer)
    text = Text(arguments.seed)
    job = everstep.join(
        snapshot_every=arguments.snapshot_every, checkpoint_every=arguments.checkpoint_every
    )
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
