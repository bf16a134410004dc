"""What to do about an answer of Redis that is none: one remedy for each code with which it refuses. Imports no client library."""

NOT_REDIS = "what answers there is not Redis"
ODD_BYTES = "backslashreplace"
"""How bytes that are no text are read: nothing of ours has any, and what others write must end no reader."""
_RIGHTS = "give the user and password in SURESCALE_REDIS_URL or SURESCALE_REDIS_PASSWORD_FILE"
_ALONE = "the view needs a Redis without cluster mode; name one in SURESCALE_REDIS_URL"
_RENAMED = "that command is renamed or taken away there; allow it, or name another Redis in SURESCALE_REDIS_URL"
_REMEDIES = {
    "NOAUTH": _RIGHTS,
    "WRONGPASS": _RIGHTS,
    "NOPERM": "grant its user the rights that docs/security.md lists",
    "LOADING": "it reads its data from disk and answers once it has; if that never ends, see its log",
    "READONLY": "this is a replica; name the master in SURESCALE_REDIS_URL, or Sentinels that know it (redis+sentinel://)",
    "MASTERDOWN": "this is a replica without its master; name the master in SURESCALE_REDIS_URL, or Sentinels that know it",
    "NOREPLICAS": "it takes no writes with so few replicas; bring them back, or lower its min-replicas-to-write",
    "OOM": "it has no memory left; raise its maxmemory, or give the view a Redis of its own",
    "MISCONF": "it cannot save its data, so it takes none; see its log, and whether its disk is full",
    "BUSY": "a script of somebody blocks it; end that with SCRIPT KILL",
    "WRONGTYPE": "another program has written there; the state service rebuilds the view within half a minute",
    "MOVED": _ALONE,
    "ASK": _ALONE,
    "CROSSSLOT": _ALONE,
    "CLUSTERDOWN": _ALONE,
    "unknown command": _RENAMED,
    "Unknown command": _RENAMED,  # in a script
    "max number of clients reached": "raise its maxclients, or end clients that nobody needs",
}
_ELSEWHERE = "name another with --redis or SURESCALE_REDIS_URL"


def remedy(said: str, code: str = "") -> str:
    """Return what to do about what Redis said; ``code``: the word it began with, where that was cut off.

    >>> remedy("READONLY You can't write against a read only replica.").partition(";")[0]
    'this is a replica'
    >>> remedy("unknown command 'EVALSHA', with args beginning with: 'a'").partition(";")[0]
    'that command is renamed or taken away there'
    >>> remedy("connection refused")
    'name another with --redis or SURESCALE_REDIS_URL'
    """
    word = code or said.partition(" ")[0]
    if word not in _REMEDIES:
        word = next((each for each in _REMEDIES if said.endswith(each) or f" {each} " in f" {said}"), "")
    return _REMEDIES.get(word, _ELSEWHERE)
