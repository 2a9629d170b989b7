"""Rows of the benches of image models in PyTorch on a GPU: training steps in float32, with TF32, and in bfloat16."""
import gpu_rows
import torch
import torch_forms


def print_rows(row, training_step, unit, each=1, bf16_alone=False):
    """training_step(bf16, compiler): a function that takes a step, on PyTorch's default device, whose losses go through
    `compiler`; each: units in a step."""
    for suffix, tf32, bf16 in (("", False, False), ("_tf32", True, False), ("_bf16", True, True)):
        if bf16_alone and not bf16:
            continue
        torch_forms.allow_tf32(tf32)

        def make(compiler):
            torch.manual_seed(1)
            with torch_forms.DEVICE:
                return training_step(bf16, compiler)

        measure = lambda call: gpu_rows.rate(call, each, torch_forms.wait, calls_between=gpu_rows.tiny(5, 1))
        value, version = torch_forms.fastest(make, [()], measure)
        gpu_rows.report(row + suffix, value, unit, version)
