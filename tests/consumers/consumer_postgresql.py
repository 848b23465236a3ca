#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The pipe from MQTT to consumer_postgresql.sql: paho-mqtt and psycopg2.

    consumer_postgresql.py HOST PORT CLIENT_ID TOPIC_FILTER CONNECTION_STRING
"""
import sys

import psycopg2
import postbag_events


def take(db, event):
    with db.cursor() as cursor:
        cursor.execute("SELECT take(%s, %s, %s, %s, %s)",
                       (event.source, event.id, event.key, event.version,
                        event.payload))
        return cursor.fetchone()[0]


def main(host, port, client_id, topic_filter, connection_string):
    db = psycopg2.connect(connection_string)
    db.autocommit = True  # the function is the transaction
    postbag_events.run(lambda event: take(db, event), host, int(port),
                       client_id, topic_filter)


if __name__ == "__main__":
    main(*sys.argv[1:])
