"""`surescale init`: from a running Kafka to the file that `surescale up` runs from.

answers  what each answer is checked against, and what is there
command  the command line: asks, or takes options
"""
