"""A cross-encoder with random weights: nothing is downloaded, and what it finds best is no other model's choice."""

import re
from pathlib import Path

WORDS = re.compile(r"\w+")


def tiny_reranker(folder: Path, texts: list[str], classes: int = 1, seed: int = 0) -> Path:
    """Saves a model that knows the words of the texts."""
    import torch
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

    words = sorted({word.lower() for text in texts for word in WORDS.findall(text)})
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    vocabulary = {word: number for number, word in enumerate([*special, *words])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    pair = {"single": "[CLS] $A [SEP]", "pair": "[CLS] $A [SEP] $B:1 [SEP]:1"}
    tokenizer.post_processor = processors.TemplateProcessing(**pair, special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    torch.manual_seed(seed)
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        initializer_range=1.0,
    )
    config.num_labels = classes
    BertForSequenceClassification(config).save_pretrained(folder)
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        model_max_length=64,
    ).save_pretrained(folder)
    return folder
