"""Decoder language model in Lightning, gradients accumulated over four batches."""

import json
import sys
import time

import pytorch_lightning as pl
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

SEQ, VOCAB, ACCUMULATE = 1024, 16000, 4


class Text(Dataset):
    def __init__(self, rows=4000):
        self.rows = torch.randint(
            0, VOCAB, (rows, SEQ + 1), generator=torch.Generator().manual_seed(0)
        )

    def __len__(self):
        return 400_000

    def __getitem__(self, i):
        return self.rows[i % len(self.rows)]


class LanguageModel(pl.LightningModule):
    def __init__(self, dim=1024, heads=16, depth=12):
        super().__init__()
        self.tok = nn.Embedding(VOCAB, dim)
        self.pos = nn.Embedding(SEQ, dim)
        layer = nn.TransformerEncoderLayer(
            dim, heads, 4 * dim, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        self.body = nn.TransformerEncoder(
            layer, depth, norm=nn.LayerNorm(dim), enable_nested_tensor=False
        )
        self.head = nn.Linear(dim, VOCAB, bias=False)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(SEQ))
        self.register_buffer("index", torch.arange(SEQ))

    def forward(self, ids):
        x = self.tok(ids) + self.pos(self.index)
        return self.head(self.body(x, mask=self.mask, is_causal=True))

    def training_step(self, batch, batch_idx):
        logits = self(batch[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        opt = torch.optim.AdamW(self.parameters(), lr=3e-4, betas=(0.9, 0.95), fused=True)
        sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: min(1.0, (s + 1) / 100))
        return {"optimizer": opt, "lr_scheduler": {"scheduler": sched, "interval": "step"}}


class Timer(pl.Callback):
    def __init__(self, without_s, with_s):
        self.todo = [("without_ms", without_s, 10), ("with_ms", with_s, 3)]
        self.times, self.first, self.start = {}, 0, None

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        if not self.todo or (batch_idx + 1) % ACCUMULATE:
            return
        key, seconds, skip = self.todo[0]
        steps = trainer.global_step - self.first
        if self.start is None:
            if steps >= skip:
                torch.cuda.synchronize()
                self.first, self.start = trainer.global_step, time.perf_counter()
        elif time.perf_counter() - self.start >= seconds:
            torch.cuda.synchronize()
            self.times[key] = 1e3 * (time.perf_counter() - self.start) / steps
            self.todo.pop(0)
            self.first, self.start = trainer.global_step, None
            if self.todo:
                print(json.dumps({"phase": "with"}), flush=True)
            else:
                trainer.should_stop = True


def main():
    pl.seed_everything(0)
    timer = Timer(float(sys.argv[1]), float(sys.argv[2]))
    loader = DataLoader(
        Text(),
        batch_size=10,
        shuffle=True,
        num_workers=4,
        pin_memory=True,
        drop_last=True,
        persistent_workers=True,
    )
    trainer = pl.Trainer(
        accelerator="gpu",
        devices=1,
        precision="bf16-mixed",
        max_epochs=-1,
        accumulate_grad_batches=ACCUMULATE,
        callbacks=[timer],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(LanguageModel(), loader)
    print(json.dumps(timer.times), flush=True)


if __name__ == "__main__":
    main()
