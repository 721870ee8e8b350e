"""Every ctypes call to llama.cpp; nothing else imports `llama_cpp`.

Three handles: `NativeModel`, `NativeContext` and the batch inside it. They check nothing that a caller cannot know
better and translate nothing into messages for people, with two exceptions: what would abort the process is refused
here, and llama.cpp's log goes to the logger `agentloop.llama`. Positions, tokens and policy live above.

State flags: llama.h, `llama_state_seq_*_ext`. A batch holds one sequence.
"""

from __future__ import annotations

import ctypes
import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from llama_cpp import llama_cpp as _llama
from numpy.typing import NDArray

from ..exceptions import ClosedError

__all__ = ["NativeContext", "NativeModel", "can_offload", "library_version", "recent_errors"]

_LEVELS = {1: logging.DEBUG, 2: logging.DEBUG, 3: logging.WARNING, 4: logging.ERROR}
_log = logging.getLogger("agentloop.llama")
_errors: deque[str] = deque(maxlen=20)
_ready = threading.Lock()
_keep: list[Any] = []  # ctypes callbacks must outlive the library's use of them


def _prototype(name: str, restype: Any, *argtypes: Any) -> Callable[..., Any]:
    library: Any = _llama._lib
    function: Any = ctypes.CFUNCTYPE(restype, *argtypes)((name, library))
    return function  # type: ignore[no-any-return]


def find_function(names: Sequence[str], restype: Any, *argtypes: Any) -> Callable[..., Any] | None:
    """The first of `names` that the library exports, as a function; None if it exports none of them."""
    for name in names:
        try:
            return _prototype(name, restype, *argtypes)
        except AttributeError:
            continue
    return None


_P, _I, _U, _Z, _B = ctypes.c_void_p, ctypes.c_int32, ctypes.c_uint32, ctypes.c_size_t, ctypes.c_bool

# The bindings' own functions turn every pointer into a Python object; these keep addresses as integers.
_decode = _prototype("llama_decode", _I, _P, _llama.llama_batch)
_logits_ith = _prototype("llama_get_logits_ith", _P, _P, _I)
_seq_rm = _prototype("llama_memory_seq_rm", _B, _P, _I, _I, _I)
_seq_cp = _prototype("llama_memory_seq_cp", None, _P, _I, _I, _I, _I)
_pos_max = _prototype("llama_memory_seq_pos_max", _I, _P, _I)
_state_size = _prototype("llama_state_seq_get_size_ext", _Z, _P, _I, _U)
_state_get = _prototype("llama_state_seq_get_data_ext", _Z, _P, _P, _Z, _I, _U)
_state_set = _prototype("llama_state_seq_set_data_ext", _Z, _P, _P, _Z, _I, _U)
_synchronize = _prototype("llama_synchronize", None, _P)
_set_abort = _prototype("llama_set_abort_callback", None, _P, _P, _P)
_tokenize = _prototype("llama_tokenize", _I, _P, ctypes.c_char_p, _I, _P, _I, _B, _B)
_to_piece = _prototype("llama_token_to_piece", _I, _P, _I, _P, _I, _I, _B)


def _on_log(level: int, text: bytes, _user: Any) -> None:
    line = text.decode("utf-8", "replace").strip()
    if not line or line == ".":
        return
    if level == 4:
        _errors.append(line)
    if "unused tensor" in line:
        level = 1  # one line a tensor of a head that was left out on purpose
    _log.log(_LEVELS.get(level, logging.DEBUG), "%s", line)


def _init() -> None:
    """Start the backend once and take over the log."""
    with _ready:
        if _keep:
            return
        callback = _llama.llama_log_callback(_on_log)
        _keep.append(callback)
        _log.addHandler(logging.NullHandler())  # without a handler, logging prints warnings to stderr
        _llama.llama_log_set(callback, ctypes.c_void_p(0))
        _llama.llama_backend_init()


def recent_errors() -> list[str]:
    """The newest error lines of llama.cpp's log, oldest first; reading empties the list."""
    lines = list(_errors)
    _errors.clear()
    return lines


def can_offload() -> bool:
    """True if this build of llama.cpp can put layers on a GPU."""
    _init()
    return bool(_llama.llama_supports_gpu_offload())


def library_version() -> str:
    """Version of the llama-cpp-python package whose library is in use."""
    import llama_cpp

    return str(llama_cpp.__version__)


class NativeModel:
    """A loaded model file. `load` answers None when llama.cpp refuses the file."""

    def __init__(self, handle: Any, load_mtp: bool) -> None:
        self.handle = handle
        self.load_mtp = load_mtp
        self._guard = threading.Lock()  # text goes to ids and back without the engine's lock; closing must wait for it
        self.vocab = _llama.llama_model_get_vocab(handle)
        self.n_vocab = int(_llama.llama_vocab_n_tokens(self.vocab))
        self.n_embd = int(_llama.llama_model_n_embd(handle))
        self.n_layer = int(_llama.llama_model_n_layer(handle))
        self.n_layer_nextn = int(_llama.llama_model_n_layer_nextn(handle))
        self.n_ctx_train = int(_llama.llama_model_n_ctx_train(handle))
        self.is_hybrid = bool(_llama.llama_model_is_hybrid(handle))
        self.is_recurrent = bool(_llama.llama_model_is_recurrent(handle))
        self.has_decoder = bool(_llama.llama_model_has_decoder(handle))
        self.has_encoder = bool(_llama.llama_model_has_encoder(handle))
        self.size = int(_llama.llama_model_size(handle))

    @classmethod
    def load(cls, path: str, *, n_gpu_layers: int, load_mtp: bool) -> NativeModel | None:
        _init()
        _errors.clear()
        params = _llama.llama_model_default_params()
        params.n_gpu_layers = n_gpu_layers
        params.load_mtp = load_mtp
        # With AMX, weights are repacked and the process dies at the first decode of quantised ones: compilers drop the
        # stores of the tile configuration (ggml-cpu/amx/mmq.cpp, ggml_tile_config_init).
        params.use_extra_bufts = b"AMX_INT8 = 1" not in _llama.llama_print_system_info()
        handle = _llama.llama_model_load_from_file(os.fsencode(path), params)
        return cls(handle, load_mtp) if handle else None

    def chat_template(self) -> str | None:
        text = _llama.llama_model_chat_template(self.handle, None)
        return text.decode("utf-8", "replace") if text else None

    def description(self) -> str:
        buffer = ctypes.create_string_buffer(256)
        _llama.llama_model_desc(self.handle, buffer, 256)
        return buffer.value.decode("utf-8", "replace")

    def tokenize(self, data: bytes, parse_special: bool) -> list[int]:
        room = len(data) + 8
        while True:
            out = np.empty(room, np.int32)
            with self._guard:
                self._check_open()
                n = _tokenize(self.vocab, data, len(data), out.ctypes.data, room, False, parse_special)
            if n >= 0:
                ids: list[int] = out[:n].tolist()
                return ids
            room = -n

    def piece(self, token: int) -> bytes:
        size = 64
        while True:
            buffer = ctypes.create_string_buffer(size)
            with self._guard:
                self._check_open()
                n = _to_piece(self.vocab, token, buffer, size, 0, True)
            if n >= 0:
                return buffer.raw[:n]
            size = -n

    def token_attributes(self) -> NDArray[np.int32]:
        """int32 [n_vocab]: the LLAMA_TOKEN_ATTR bits of every id (CONTROL is 8, USER_DEFINED is 16)."""
        get, vocab = _llama.llama_vocab_get_attr, self.vocab
        return np.fromiter((get(vocab, i) for i in range(self.n_vocab)), np.int32, self.n_vocab)

    def eog_ids(self) -> frozenset[int]:
        is_eog, vocab = _llama.llama_vocab_is_eog, self.vocab
        return frozenset(i for i in range(self.n_vocab) if is_eog(vocab, i))

    def _check_open(self) -> None:
        if not self.handle:
            raise ClosedError("the engine was closed before; load it again")

    def close(self) -> None:
        with self._guard:
            if self.handle:
                _llama.llama_model_free(self.handle)
                self.handle = None


class NativeContext:
    """A context with one preallocated batch. Not thread-safe: the engine's lock is held around every call."""

    def __init__(self, handle: Any, model: NativeModel, n_outputs: int | None = None) -> None:
        self.handle = handle
        self.memory = _llama.llama_get_memory(handle)
        self.n_vocab = model.n_vocab
        self.n_ctx = int(_llama.llama_n_ctx_seq(handle))
        self.n_batch = int(_llama.llama_n_batch(handle))
        self.n_ubatch = int(_llama.llama_n_ubatch(handle))
        self.n_outputs = n_outputs or self.n_batch  # rows of a batch that may have logits
        self.n_ring = int(_llama.llama_n_rs_seq(handle))
        self.serial = 0  # counts decodes; a logits row is valid while it stands
        self._rows: dict[int, NDArray[np.float32]] = {}
        n = self.n_batch
        self._token, self._pos = np.zeros(n, np.int32), np.zeros(n, np.int32)
        self._n_seq, self._seq = np.ones(n, np.int32), np.zeros(1, np.int32)
        self._out = np.zeros(n, np.int8)
        self._seq_ptr = np.full(n, self._seq.ctypes.data, np.uintp)
        self._steps = np.arange(n, dtype=np.int32)
        self._batch = _llama.llama_batch()
        for name, array in (
            ("token", self._token),
            ("pos", self._pos),
            ("n_seq_id", self._n_seq),
            ("seq_id", self._seq_ptr),
            ("logits", self._out),
        ):
            fields: Any = _llama.llama_batch._fields_
            setattr(self._batch, name, ctypes.cast(array.ctypes.data, dict(fields)[name]))
        self._abort_flag = ctypes.create_string_buffer(b"0")
        self._atoi = _find_atoi()

    @classmethod
    def create(cls, model: NativeModel, **settings: int | bool) -> NativeContext | None:
        """None when llama.cpp refuses the settings. Names of `settings` are those of llama_context_params."""
        params = _llama.llama_context_default_params()
        for name, value in settings.items():
            setattr(params, name, value)
        params.no_perf = True
        _errors.clear()
        handle = _llama.llama_init_from_model(model.handle, params)
        return cls(handle, model, settings.get("n_outputs_max")) if handle else None

    def decode(self, ids: Sequence[int], pos: int, seq: int, all_outputs: bool = False, abortable: bool = False) -> int:
        """Decode `ids` of `seq` at `pos`...; the last row has logits, or all rows. Returns llama.cpp's code, 0 is
        success. Positions are asserted contiguous first: a forward gap is accepted silently on M-RoPE models."""
        n = len(ids)
        assert 0 < n <= self.n_batch, f"a batch holds 1 to {self.n_batch} tokens, not {n}"
        # llama.cpp writes past its buffer else
        assert not all_outputs or n <= self.n_outputs, f"{n} rows of logits; the context has room for {self.n_outputs}"
        self._check_open()
        behind = _pos_max(self.memory, seq)
        assert behind == pos - 1, f"position {pos} does not follow {behind} in sequence {seq}"
        if not abortable or self._atoi is None:
            return self._run(ids, pos, seq, all_outputs)
        _set_abort(self.handle, self._atoi, ctypes.addressof(self._abort_flag))
        try:
            return self._run(ids, pos, seq, all_outputs)
        finally:
            _set_abort(self.handle, None, None)

    def decode_one(self, token: int, pos: int, seq: int) -> int:
        """`decode` of one token, for the loop. Returns -100, with nothing decoded, where `pos` does not follow."""
        if _pos_max(self.memory, seq) != pos - 1:
            return -100
        self.serial += 1
        self._seq[0], self._token[0], self._pos[0], self._out[0] = seq, token, pos, 1
        self._batch.n_tokens = 1
        return int(_decode(self.handle, self._batch))

    def _run(self, ids: Sequence[int], pos: int, seq: int, all_outputs: bool) -> int:
        n = len(ids)
        self.serial += 1
        self._seq[0] = seq
        if n == 1:
            self._token[0], self._pos[0], self._out[0] = ids[0], pos, 1
        else:
            self._token[:n] = ids
            np.add(self._steps[:n], pos, out=self._pos[:n])
            self._out[:n] = all_outputs
            self._out[n - 1] = 1
        self._batch.n_tokens = n
        return int(_decode(self.handle, self._batch))

    def arm(self) -> None:
        """Forget earlier aborts; call it before the abortable decode is announced to whoever may abort it."""
        self._abort_flag[0] = b"0"

    def feed_embeddings(self, rows: NDArray[np.float32]) -> None:
        """Give every token of a batch the row of `rows` at its index, float32 [n_batch, n_embd]; the caller fills it
        and keeps it alive."""
        fields: Any = _llama.llama_batch._fields_
        self._batch.embd = ctypes.cast(rows.ctypes.data, dict(fields)["embd"])

    def decode_at(self, ids: Sequence[int], pos: int, seq: int) -> int:
        """As `decode`, for a context that may begin anywhere: `pos` follows its last position, or it is empty."""
        self._check_open()
        behind = _pos_max(self.memory, seq)
        assert behind in (-1, pos - 1), f"position {pos} does not follow {behind} in sequence {seq}"
        return self._run(ids, pos, seq, False)

    def abort(self) -> None:
        """Ask an abortable decode that runs now to stop. From any thread. CPU and Metal backends only."""
        self._abort_flag[0] = b"1"

    def row(self, i: int) -> NDArray[np.float32]:
        """View, float32 [n_vocab], of the logits of batch row `i` (-1: the last); valid until the next decode."""
        self._check_open()
        address = _logits_ith(self.handle, i)
        if not address:
            raise IndexError(f"batch row {i} has no logits")
        view = self._rows.get(address)
        if view is None:
            if len(self._rows) > 4096:
                self._rows.clear()
            memory: Any = (ctypes.c_float * self.n_vocab).from_address(address)
            view = np.frombuffer(memory, np.float32)
            self._rows[address] = view
        return view

    def position(self, seq: int) -> int:
        """Number of tokens in the state of `seq`."""
        self._check_open()
        return int(_pos_max(self.memory, seq)) + 1

    def remove(self, seq: int, start: int) -> bool:
        """Drop positions >= start. On recurrent memory True does not prove exactness: see LiveState."""
        self._check_open()
        return bool(_seq_rm(self.memory, seq, start, -1))

    def clear(self, seq: int) -> None:
        self._check_open()
        _seq_rm(self.memory, seq, -1, -1)

    def copy(self, source: int, target: int) -> None:
        self._check_open()
        _seq_cp(self.memory, source, target, -1, -1)

    def save(self, seq: int, flags: int = 0) -> bytes:
        """The state of `seq` as bytes; empty when llama.cpp could not write it."""
        self._check_open()
        size = _state_size(self.handle, seq, flags)
        buffer = np.empty(size, np.uint8)
        written = _state_get(self.handle, buffer.ctypes.data, size, seq, flags)
        return buffer[:written].tobytes()

    def load(self, seq: int, data: bytes, flags: int = 0) -> bool:
        """True when all of `data` was taken. After False the sequence must be cleared by the caller."""
        self._check_open()
        view = np.frombuffer(data, np.uint8)
        return bool(_state_set(self.handle, view.ctypes.data, len(data), seq, flags) == len(data) > 0)

    def state_size(self, seq: int, flags: int = 0) -> int:
        self._check_open()
        return int(_state_size(self.handle, seq, flags))

    def synchronize(self) -> None:
        self._check_open()
        _synchronize(self.handle)

    def _check_open(self) -> None:
        """A context that was freed must not be asked anything: llama.cpp would read what is not its own any more."""
        if not self.handle:
            raise ClosedError("the engine was closed before; load it again")

    def close(self) -> None:
        if self.handle:
            _llama.llama_free(self.handle)
            self.handle = None
            self._rows.clear()


def bare_decode_loop(ctx: NativeContext, ids: Sequence[int], pos: int, seq: int) -> None:
    """The least that a decode loop can do: llama_decode and the address of the logits, once a token. For benchmarks."""
    decode, logits, handle, batch = _decode, _logits_ith, ctx.handle, ctx._batch
    token, position = ctx._token, ctx._pos
    ctx._seq[0], ctx._out[0] = seq, 1
    batch.n_tokens = 1
    for i in ids:
        token[0], position[0] = i, pos
        if decode(handle, batch) != 0:
            raise RuntimeError("llama_decode failed")
        logits(handle, 0)
        pos += 1
    ctx.serial += len(ids)


def _find_atoi() -> int | None:
    """Address of libc's atoi, used as an abort callback that runs no Python: it reads "0" or "1" from the flag.

    Its int comes back in the register that holds a bool on x86-64 and AArch64 System V ABIs; None elsewhere.
    """
    import platform

    if os.name != "posix" or platform.machine().lower() not in ("x86_64", "amd64", "aarch64", "arm64"):
        return None
    try:
        atoi = ctypes.CDLL(None).atoi
        atoi.restype, atoi.argtypes = ctypes.c_bool, [ctypes.c_char_p]
        if atoi(b"0") or not atoi(b"1"):
            return None
        return ctypes.cast(atoi, ctypes.c_void_p).value
    except (OSError, AttributeError):
        return None
