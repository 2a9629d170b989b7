"""Prints what TensorBoard's own reader sees in a directory of event files, one `tag step wall_time value` a line;
of an image `tag step wall_time width height` and its bytes in hex."""
import sys

from tensorboard.backend.event_processing import event_accumulator

accumulator = event_accumulator.EventAccumulator(sys.argv[1], size_guidance={event_accumulator.SCALARS: 0, event_accumulator.IMAGES: 0})
accumulator.Reload()
for tag in sorted(accumulator.Tags()["scalars"]):
    for event in accumulator.Scalars(tag):
        print(tag, event.step, repr(event.wall_time), repr(event.value))
for tag in sorted(accumulator.Tags()["images"]):
    for event in accumulator.Images(tag):
        print(tag, event.step, repr(event.wall_time), event.width, event.height, event.encoded_image_string.hex())
