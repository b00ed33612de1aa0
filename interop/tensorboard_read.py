"""Reads a folder of event files with TensorBoard's own reader and prints what it found as JSON.

Exits 3 when the package tensorboard is not installed.
"""

import json
import sys

try:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.util import tensor_util
except ImportError as error:
    print(error, file=sys.stderr)
    sys.exit(3)


def main(folder: str) -> None:
    events = EventAccumulator(folder, size_guidance={"scalars": 0, "tensors": 0, "histograms": 0})
    events.Reload()
    tags = events.Tags()
    tensors = {}
    for tag in tags["tensors"]:
        plugin = events.SummaryMetadata(tag).plugin_data.plugin_name
        values = [
            {"step": event.step, "value": tensor_util.make_ndarray(event.tensor_proto).tolist()}
            for event in events.Tensors(tag)
        ]
        tensors[tag] = {"plugin": plugin, "values": values}
    scalars = {
        tag: [{"step": event.step, "value": event.value} for event in events.Scalars(tag)]
        for tag in tags["scalars"]
    }
    histograms = {}
    for tag in tags["histograms"]:
        for event in events.Histograms(tag):
            value = event.histogram_value
            histograms[tag] = {
                "step": event.step,
                "num": value.num,
                "min": value.min,
                "max": value.max,
                "limits": list(value.bucket_limit),
                "counts": list(value.bucket),
            }
    json.dump(
        {"scalars": scalars, "tensors": tensors, "histograms": histograms},
        sys.stdout,
        default=lambda value: value.decode("utf-8"),
    )


main(sys.argv[1])
