"""The numbers of ZooKeeper's protocol: operations, errors, places in the order of replies."""

from __future__ import annotations

from typing import Final

from klamm.store.port import Outcome

CREATE, DELETE, EXISTS, GET_DATA, SET_DATA, GET_ACL, SET_ACL = 1, 2, 3, 4, 5, 6, 7
GET_CHILDREN, SYNC, PING, GET_CHILDREN2, CHECK, MULTI, CREATE2 = 8, 9, 11, 12, 13, 14, 15
RECONFIG, CHECK_WATCHES, REMOVE_WATCHES, CREATE_CONTAINER, DELETE_CONTAINER = 16, 17, 18, 19, 20
CREATE_TTL, MULTI_READ, AUTH, SET_WATCHES, SASL, GET_EPHEMERALS = 21, 22, 100, 101, 102, 103
GET_ALL_CHILDREN_NUMBER, SET_WATCHES2, ADD_WATCH, WHO_AM_I, CLOSE = 104, 105, 106, 107, -11

PING_XID: Final = -2
EVENT_XID: Final = -1

OK: Final = 0
RUNTIME_INCONSISTENCY: Final = -2
MARSHALLING_ERROR: Final = -5
UNIMPLEMENTED: Final = -6
BAD_ARGUMENTS: Final = -8
NO_NODE: Final = -101
NO_AUTH: Final = -102
SESSION_EXPIRED: Final = -112
AUTH_FAILED: Final = -115
NO_WATCHER: Final = -121
RECONFIG_DISABLED: Final = -123

BY_OUTCOME: Final = {
    Outcome.OK: OK,
    Outcome.NO_NODE: NO_NODE,
    Outcome.NODE_EXISTS: -110,
    Outcome.BAD_VERSION: -103,
    Outcome.NOT_EMPTY: -111,
    Outcome.NO_CHILDREN_FOR_EPHEMERALS: -108,
    Outcome.ROLLED_BACK: RUNTIME_INCONSISTENCY,
    Outcome.NO_AUTH: NO_AUTH,
    Outcome.INVALID_ACL: -114,
    Outcome.BAD_ARGUMENTS: BAD_ARGUMENTS,
    Outcome.UNIMPLEMENTED: UNIMPLEMENTED,
}

# The names that the word `cons` gives a connection's last operation.
NAMES: Final = {
    CREATE: "CREA",
    DELETE: "DELE",
    EXISTS: "EXIS",
    GET_DATA: "GETD",
    SET_DATA: "SETD",
    GET_ACL: "GETA",
    SET_ACL: "SETA",
    GET_CHILDREN: "GETC",
    SYNC: "SYNC",
    PING: "PING",
    GET_CHILDREN2: "GETC",
    MULTI: "MULT",
    CREATE2: "CREA",
    SET_WATCHES: "SETW",
    SET_WATCHES2: "SETW",
    CLOSE: "CLOS",
}
