/** Where `headgate doctor` asks whether a door is Headgate's: no table is there, and the lists of requests leave it out. */
export const doctorPath = '/webhook/headgate/doctor/asks';
