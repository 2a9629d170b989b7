#!/usr/bin/env python3
"""PyTorch's float32 step beside Troupe's bfloat16 rows: what a user gains who changes the type."""
import torch_sngan_step

if __name__ == "__main__":
    torch_sngan_step.main(only_fp32=True)
