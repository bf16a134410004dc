"""The SURE paper (IJCAI 2022), run again: its policy, two ablations, five learned rivals, one model per job, and its tables.

Start at ``commands``. ``quick`` judges shipped models, ``campaign`` trains and judges everything, ``report`` makes the page.
"""
