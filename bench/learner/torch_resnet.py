"""ResNet-50 v1.5 and its training step in PyTorch, for the rivals of the resnet50 bench and the tests' golden losses.

The layers are those of algorithms/resnet/networks.cpp, in PyTorch's names: torchvision's models.resnet50, without that package.
"""
import torch
from torch import nn


class Bottleneck(nn.Module):
    def __init__(self, inputs, width, stride, v1=False):
        super().__init__()
        outputs = 4 * width
        first, second = (stride, 1) if v1 else (1, stride)
        self.conv1 = nn.Conv2d(inputs, width, 1, first, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, second, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, outputs, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU(inplace=True)
        self.shortcut = None
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        y += x if self.shortcut is None else self.shortcut(x)
        return self.relu(y)


class ResNet50(nn.Module):
    def __init__(self, classes=1000, v1=False):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)
        )
        blocks, inputs = [], 64
        for stage, (width, count) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3))):
            for block in range(count):
                blocks.append(Bottleneck(inputs, width, 2 if stage > 0 and block == 0 else 1, v1))
                inputs = 4 * width
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(inputs, classes)

    def forward(self, x):
        return self.head(self.blocks(self.stem(x)).mean((2, 3)))


def training_step(batch, size=224, bf16=False, compiler=lambda function: function):
    """A function that takes one step of SGD with Nesterov's momentum on images that stay the same, on the default device. compiler: what the
    loss goes through."""
    torch.manual_seed(1)
    model = ResNet50().to(memory_format=torch.channels_last)
    images = torch.randn(batch, 3, size, size).to(memory_format=torch.channels_last)
    labels = torch.randint(0, 1000, (batch,))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, nesterov=True, weight_decay=1e-4, foreach=True)
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)

    def loss_of(images, labels):
        with torch.autocast(images.device.type, dtype=torch.bfloat16, enabled=bf16):
            logits = model(images)
        return criterion(logits.float(), labels)

    loss_of = compiler(loss_of)

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(images, labels)
        loss.backward()
        optimizer.step()
        return loss

    return step
