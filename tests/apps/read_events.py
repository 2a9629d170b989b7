"""Prints what TensorBoard's own reader sees in a directory of event files, one `tag step wall_time value` a line."""
import sys

from tensorboard.backend.event_processing import event_accumulator

accumulator = event_accumulator.EventAccumulator(sys.argv[1], size_guidance={event_accumulator.SCALARS: 0})
accumulator.Reload()
for tag in sorted(accumulator.Tags()["scalars"]):
    for event in accumulator.Scalars(tag):
        print(tag, event.step, repr(event.wall_time), repr(event.value))
